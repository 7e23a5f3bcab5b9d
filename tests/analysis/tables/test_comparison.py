import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.tables.comparison import aggregates, improvements, lines_of, profiles


def study(**rows) -> pd.DataFrame:
    """Final scores by "estimator-lag", three seeds each."""
    parts = []
    for arm, score in rows.items():
        estimator, lag = arm.split("_")
        scores = score + np.array([0.0, 0.01, 0.02])
        parts.append(
            pd.DataFrame(
                {"arm": arm, "seed": range(3), "estimator": estimator, "lag": lag, "final_score": scores}
            )
        )
    return pd.concat(parts, ignore_index=True)


GRID = study(a_0=0.8, a_16=0.6, b_0=0.7, b_16=0.5)


def test_estimators_in_several_tasks_are_compared_task_by_task():
    lines = lines_of(GRID, ("estimator", "lag"))
    assert (lines.by, lines.tasks, lines.left_out) == ("estimator", 2, ())
    # b at lag 0 beats a at lag 16; within a task it never does.
    assert improvements(lines)["a"]["b"].estimate == 1.0
    assert improvements(lines)["b"]["a"].estimate == 0.0
    found = aggregates(lines, 0.75, rng=np.random.default_rng(0))
    assert found["a"]["mean"].estimate == pytest.approx(0.71)
    assert found["a"]["short of target"].estimate == pytest.approx((0.15 + 0.14 + 0.13) / 6)
    # What lags differ by is no doubt: seeds of a lag are 0.02 apart.
    assert found["a"]["mean"].high - found["a"]["mean"].low <= 0.02


def test_who_was_run_in_other_tasks_is_named_not_compared():
    lines = lines_of(pd.concat([GRID, study(waits_nan=0.9)]), ("estimator", "lag"))
    assert list(lines.scores) == ["a", "b"]
    assert lines.left_out == ("waits",)


def test_one_arm_an_estimator_is_compared_by_arm_whatever_else_differs():
    lines = lines_of(study(a_0=0.8, b_16=0.7), ("estimator", "lag"))
    assert (lines.by, list(lines.scores), lines.tasks) == ("arm", ["a_0", "b_16"], 1)


def test_runs_without_a_score_are_not_there():
    unmeasured = GRID.assign(final_score=np.nan)
    assert lines_of(unmeasured, ("estimator", "lag")).scores == {}
    part = GRID.assign(final_score=GRID["final_score"].where(GRID["estimator"] == "a"))
    assert list(lines_of(part, ()).scores) == ["a_0", "a_16"]


def test_profiles_fall_from_all_to_none_between_the_same_scores():
    table = profiles(lines_of(GRID, ("estimator", "lag")), rng=np.random.default_rng(0))
    for _, own in table.groupby("arm"):
        assert all(one >= other for one, other in itertools.pairwise(own["mean"]))
        assert own["n"].tolist() == [6] * len(own)
    ends = table.groupby("arm")["mean"].agg(["first", "last"])
    assert ends.loc["a"].tolist() == [1.0, 0.0]
    assert ends.loc["b"].tolist() == [5 / 6, 0.0]  # the lowest score of all is b's own: not above itself
