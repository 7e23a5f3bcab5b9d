"""A log of more updates than rows: neighbours are merged, what is found stays."""

import numpy as np
import pytest

from analysis.audit.reading.rollouts import RolloutSums
from analysis.audit.reading.row_of import RowOf
from analysis.audit.reading.series import Series


def test_rows_by_hand():
    rows = RowOf(limit=4)
    assert [rows.place(update) for update in (10, 20, 40, 30, 20)] == [0, 1, 2, 3, 1]
    assert not rows.is_full
    rows.place(50)
    assert rows.is_full
    assert rows.merge().tolist() == [0, 0, 1, 1, 2]
    assert rows.updates().tolist() == [10, 30, 50]
    # 60 is the second of the last row, 70 the first of a new one; what came before finds its row again.
    assert [rows.place(update) for update in (60, 70, 25, 5, 50, 55)] == [2, 3, 0, 0, 2, 2]
    assert len(rows) == 4


def fold(limit, updates, **columns):
    series = Series(rows=RowOf(limit=limit))
    for i, update in enumerate(updates):
        series.add(float(update), {name: float(values[i]) for name, values in columns.items()})
    return series


@pytest.mark.parametrize("n", [64, 65, 99, 1000])
def test_means_and_extremes_of_merged_rows_are_those_of_their_updates(n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n)
    series = fold(8, range(n), lag_mean=values, lag_max=values, reward_min=values)
    table, every = series.table(), series.rows.every
    assert len(table) <= 8
    assert table["update"].tolist() == list(range(0, n, every))
    for i, begin in enumerate(range(0, n, every)):
        part = values[begin : begin + every]
        assert table["lag_mean"][i] == pytest.approx(part.mean())
        assert table["lag_max"][i] == part.max()
        assert table["reward_min"][i] == part.min()


def test_holes_stay_holes_and_a_mean_is_of_what_is_there():
    series = Series(rows=RowOf(limit=4))
    for update in range(8):
        series.add(float(update), {"entropy": float(update)} if update in (2, 3, 5) else {"loss": 1.0})
    table = series.table()
    assert series.rows.every == 2
    assert table["entropy"].tolist() == pytest.approx([np.nan, 2.5, 5.0, np.nan], nan_ok=True)


def test_a_counter_that_goes_back_all_the_time_is_counted_and_not_kept():
    series = fold(8, [1, 0] * 500, loss=np.ones(1000))
    assert series.back["update"].times == 500
    assert (series.back["update"].before, series.back["update"].after) == (1, 0)


def test_rollouts_of_merged_updates_are_summed():
    few, many = RolloutSums(), RolloutSums(rows=RowOf(limit=4))
    for update in range(9):
        for member in range(4):
            rollout = {"reward": update + member, "response_length": 10 * update, "lag": update, "group": "a"}
            few.add(rollout, update // 4)
            many.add(rollout, update)
    assert many.rows.every == 4
    table = many.table()
    assert table["update"].tolist() == [0, 4, 8]
    for name in ("reward_mean", "reward_max", "lag_max", "response_length_mean", "rollouts"):
        assert table[name].tolist() == few.table()[name].tolist(), name
