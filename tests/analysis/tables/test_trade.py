import numpy as np
import pandas as pd
import pytest

from analysis.tables.frontier import frontier_table, plan_table
from analysis.tables.lag_parts import lag_parts_table
from analysis.tables.length_bias import length_bias_table
from analysis.tables.load import expected, lag_by_load

RNG = np.random.default_rng(0)
NOBODY = {"queue_batches": np.nan, "updates_per_batch": 1.0}


def runs(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(columns).assign(seed=lambda table: range(len(table)))


def test_what_another_beats_in_both_is_not_on_the_frontier():
    outcomes = runs(
        arm=["fresh", "fresh", "old", "worse", "idle"],
        mean_lag=[1.0, 3.0, 8.0, 9.0, np.nan],
        updates_per_hour=[10.0, 14.0, 30.0, 20.0, 5.0],
    )
    table = frontier_table(outcomes, rng=RNG).set_index("name")
    assert table["best"].to_dict() == {"fresh": True, "old": True, "worse": False, "idle": False}
    fresh = table.loc["fresh"]
    assert (fresh["lag"], fresh["throughput"], fresh["n"]) == (2.0, 12.0, 2)
    assert (fresh["lag_low"], fresh["lag_high"]) == (1.0, 3.0)
    assert np.isnan(table.loc["old", "lag_low"])  # one seed has no interval


def test_no_run_at_all_gives_tables_without_rows():
    none = runs(arm=[], mean_lag=[], updates_per_hour=[], length_ratio=[], settled_lag=[], rho=[])
    assert len(frontier_table(none, rng=RNG)) == 0
    assert len(length_bias_table(none, rng=RNG)) == 0
    assert len(lag_parts_table(none, rng=RNG)) == 0
    points = lag_by_load(none, rng=RNG)
    assert len(points) == 0
    assert list(expected(points).columns) == ["line", "rho", "lag"]


def setting(gpus: int, lag: float, rate: float, bound: int | None = None, *, together: bool = False):
    numbers = {"mean_lag_updates": (lag, 0.5), "rollouts_per_hour": (rate, None)}
    return {
        "setting": {"rollout_gpus": gpus, "in_flight": 64, "bound_batches": bound, "together": together},
        "numbers": {name: {"mean": m, "half_width": h} for name, (m, h) in numbers.items()},
    }


def test_a_plan_is_a_table_of_its_settings():
    answer = {
        "settings": [
            setting(8, 0.0, 100.0, together=True),
            setting(6, 4.0, 300.0, 2),
            setting(4, 5.0, 200.0),
        ],
        "config": {"seeds": 3},
    }
    table = plan_table(answer)
    assert table["name"].tolist() == [
        "taking turns, 64 in flight", "6 GPUs decode, 64 in flight, bound 2", "4 GPUs decode, 64 in flight",
    ]  # fmt: skip
    assert table["best"].tolist() == [True, True, False]
    assert table["lag_high"].tolist() == [0.5, 4.5, 5.5]
    assert np.isnan(table["throughput_low"]).all()  # null in the JSON: one seed
    assert set(table["n"]) == {3}
    with pytest.raises(ValueError, match="this is no plan: it has no settings, but compare"):
        plan_table({"compare": {}})


def test_arms_that_differ_in_rho_alone_are_one_line_and_its_curve_peaks_at_1():
    shape = NOBODY | {"queue_batches": 2.0, "group_ratio": 3.0}
    outcomes = runs(
        arm=["a", "b", "c"],
        rho=[0.5, 1.5, 0.5],
        settled_lag=[12.5, 9.8, 99.0],
        slots_per_batch=[4.0, 4.1, 16.0],
    ).assign(**shape)
    points = lag_by_load(outcomes, rng=RNG)
    assert points["line"].tolist() == ["C/B 16, M 3, queue 2 B"] + ["C/B 4, M 3, queue 2 B"] * 2
    curve = expected(points).loc[lambda table: table["line"] == "C/B 4, M 3, queue 2 B"]
    at = curve.set_index("rho")["lag"]
    assert at[1.0] == pytest.approx(12 + 1)
    # Just beyond 1 the queue is full: (2 q + 0) / 2 = 2.
    assert at.max() == pytest.approx(12 + 2)
    assert at.idxmax() == pytest.approx(1.0)
    assert at.iloc[-1] < at[1.0]


def test_parts_measured_stand_over_parts_expected():
    parts = {"generation": 2.0, "group_wait": 4.0, "queue": 0.5, "trainer_ahead": 0.0}
    columns = {f"{who}_lag_{part}": size for who in ("settled", "predicted") for part, size in parts.items()}
    outcomes = runs(arm=["a", "a", "imposed"], settled_lag=[6.0, 7.0, np.nan], predicted_lag=6.5).assign(
        **columns
    )
    table = lag_parts_table(outcomes, rng=RNG)
    assert table[["name", "who", "lag", "n"]].to_numpy().tolist() == [
        ["a", "measured", 6.5, 2], ["a", "predicted", 6.5, 2],
    ]  # fmt: skip
    assert table["low"].tolist() == pytest.approx([6.0, np.nan], nan_ok=True)


def test_length_bias_is_the_mean_ratio_of_runs():
    outcomes = runs(
        arm=["a", "a", "b"],
        generated_length_tokens=[100.0, 200.0, np.nan],
        trained_length_tokens=[50.0, 180.0, np.nan],
        length_ratio=[0.5, 0.9, np.nan],
    )
    (row,) = length_bias_table(outcomes, rng=RNG).to_dict("records")
    assert (row["name"], row["generated"], row["trained"], row["n"]) == ("a", 150.0, 115.0, 2)
    assert row["ratio"] == pytest.approx(0.7)
    assert (row["low"], row["high"]) == pytest.approx((0.5, 0.9))
