import math

import numpy as np
import pandas as pd
import pytest

from analysis.measures.collapse import Criteria
from analysis.measures.outcomes import idle_shares, outcome_table, outcomes, token_mean
from analysis.study import summarise
from tests.analysis.factories import learning_run, recorded, run_of, updates_table

CRITERIA = Criteria(target=0.75, chance=0.1, collapse_window_updates=3)


def test_every_outcome_of_a_small_run_by_hand():
    row = outcomes(learning_run([0.2, 0.6, 0.8, 0.9], lag=2, arm="sao", seed=4), CRITERIA)
    assert (row["arm"], row["seed"], row["hours"]) == ("sao", 4, 4.0)
    # Rollout i is sampled by max(0, i - 2): lags 0, 1, 2, 2.
    assert (row["mean_lag"], row["max_lag"]) == (1.25, 2.0)
    assert (row["trainer_idle"], row["engine_idle"]) == pytest.approx((0.25, 0.75))
    assert (row["hours_to_target"], row["reached_target"]) == (3.0, True)
    assert (row["final_score"], row["collapsed"], row["fate"]) == (0.9, False, "reached target")
    assert math.isnan(row["masked_fraction"])


def test_a_target_that_was_not_reached_is_missing_not_infinite_or_0():
    row = outcomes(learning_run([0.2, 0.3, 0.4]), CRITERIA)
    assert math.isnan(row["hours_to_target"])
    assert row["reached_target"] is False
    assert row["hours"] == 3.0  # how long it was watched


def test_a_run_that_ended_in_nan_scores_chance_instead_of_leaving_the_mean():
    run = learning_run([0.5, 0.9, math.nan], gradient_norm=math.inf)
    row = outcomes(run, CRITERIA)
    assert row["collapsed"]
    assert row["final_score"] == CRITERIA.chance


def test_a_run_that_only_kept_time_has_no_learning_outcomes():
    row = outcomes(run_of(recorded(None)), CRITERIA)
    assert (row["fate"], row["collapsed"]) == ("not measured", False)
    assert math.isnan(row["final_score"])
    assert row["trainer_idle"] == pytest.approx(0.25)


def test_fractions_are_weighted_by_tokens_and_skip_what_was_not_measured():
    updates = updates_table(masked_fraction=[0.1, 0.4, math.nan]).assign(tokens=[30, 10, 100])
    assert token_mean(updates, "masked_fraction") == pytest.approx((3 + 4) / 40)


def test_the_same_seed_twice_is_refused():
    runs = [learning_run([0.1]), learning_run([0.2])]
    with pytest.raises(ValueError, match="'arm' has seed 0 twice"):
        outcome_table(runs, CRITERIA)


def test_idle_causes_add_up_to_the_idle_share_of_each_kind_of_machine():
    recorder = recorded([0.1, 0.2])
    recorder.add_interval(  # a second slot that never stops
        resource="engine-1/slot-0", state="busy", cause="decode", start_s=0.0, end_s=7200.0
    )
    run = run_of(recorder)
    by_kind = idle_shares(run).groupby("kind")["idle"].sum()
    row = outcomes(run, CRITERIA)
    assert by_kind["engines"] == pytest.approx(row["engine_idle"]) == pytest.approx(0.375)
    assert by_kind["trainer"] == pytest.approx(row["trainer_idle"])


def test_a_machine_that_never_paused_is_shown_as_such():
    recorder = recorded([0.1])
    recorder.intervals[:] = [row for row in recorder.intervals if row[0] == "trainer"]
    recorder.add_interval(resource="engine-0/slot-0", state="busy", cause="decode", start_s=0.0, end_s=3600.0)
    table = idle_shares(run_of(recorder)).set_index("kind")
    assert (table.loc["engines", "idle"], table.loc["engines", "cause"]) == (0.0, "never idle")


def test_a_study_adds_lags_up_averages_idle_over_all_seeds_and_keeps_the_order_of_arms():
    runs = [learning_run([0.1, 0.2, 0.3], arm=arm, seed=seed, lag=1) for arm in "ab" for seed in (0, 1)]
    study = summarise(runs, CRITERIA, arms=["b"])
    assert list(dict.fromkeys(study.outcomes["arm"])) == ["b", "a"]
    assert list(dict.fromkeys(study.updates["arm"])) == ["b", "a"]
    counts = study.lags.loc[study.lags["arm"] == "a"].set_index("lag")["rollouts"].to_dict()
    assert counts == {0: 2, 1: 4}
    idle = study.idle.set_index(["arm", "kind", "cause"])["idle"]
    assert idle["a", "trainer", "no_batch"] == pytest.approx(0.25)
    with pytest.raises(ValueError, match="without runs"):
        summarise([], CRITERIA)


def test_factors_are_columns_and_replace_no_outcome():
    runs = [learning_run([0.1, 0.2], arm=arm, seed=seed) for arm in "ab" for seed in (0, 1)]
    factors = {"a": {"lag": 4, "estimator": "grpo"}, "b": {"lag": 16}}
    study = summarise(runs, CRITERIA, factors=factors)
    assert study.factors == ("lag", "estimator")
    assert study.outcomes["lag"].tolist() == [4, 4, 16, 16]
    assert study.outcomes["estimator"].tolist()[:2] == ["grpo"] * 2
    assert study.outcomes["estimator"].isna().tolist() == [False, False, True, True]
    with pytest.raises(ValueError, match="factor 'mean_lag' has the name of an outcome"):
        summarise(runs, CRITERIA, factors={"a": {"mean_lag": 4}, "b": {"mean_lag": 4}})
    # What was set and came out is one and the same.
    assert (
        summarise(runs, CRITERIA, factors={arm: {"updates": 2} for arm in "ab"})
        .outcomes["updates"]
        .eq(2)
        .all()
    )


def test_a_collapse_and_a_stall_are_told_apart():
    broken = outcomes(learning_run([0.8] * 10 + [0.1] * 10), CRITERIA)
    assert (broken["collapsed"], broken["stalled"], broken["collapsed_at_update"]) == (True, False, 11)
    flat = outcomes(learning_run([0.5] * 20), CRITERIA)
    assert (flat["collapsed"], flat["stalled"], flat["event_update"]) == (False, True, 20)
    assert math.isnan(flat["collapsed_at_update"])
    assert flat["watched_until_update"] == 18  # from 18 on, down to the end is 3 updates


def test_a_cause_that_one_seed_never_met_is_0_there():
    recorder = recorded([0.1])
    recorder.add_interval(resource="tool", state="idle", cause="crash", start_s=0.0, end_s=3600.0)
    study = summarise([run_of(recorder), learning_run([0.1], seed=1)], CRITERIA)
    idle = study.idle.set_index(["kind", "cause"])["idle"]
    assert idle["tool", "crash"] == pytest.approx(0.5)


def test_the_unit_is_the_seed_not_the_update():
    long, short = learning_run([0.9] * 40, seed=0), learning_run([0.1] * 4, seed=1)
    table = outcome_table([long, short], CRITERIA)
    assert isinstance(table, pd.DataFrame)
    assert np.isclose(table["final_score"].mean(), 0.5)
