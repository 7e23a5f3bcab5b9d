import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.lag_table import LEFT, OLDEST, WEIGHTINGS, advantage_sizes, lag_table, weighed
from simulator.eventlog import Recorder
from tests.analysis.factories import run_of


def rows(recorder: Recorder, **choices) -> dict[tuple[str, str], dict]:
    run = run_of(recorder)
    table = lag_table(run.rollouts, run.segments, **choices)
    return {(row["population"], row["weighting"]): row for row in table.to_dict("records")}


def add(recorder: Recorder, rollout: int, *, lags: dict[int, int], consumed: int = 10, **columns) -> None:
    """A rollout of some tokens at each lag, consumed at version 10."""
    status = columns.pop("status", "trained")
    own = {"rollout_id": rollout, "status": status, "group_id": rollout, "consumed_version": consumed}
    recorder.add_rollout(**(own | columns))
    for lag, tokens in lags.items():
        recorder.add_segment(rollout_id=rollout, version=10 - lag, start_token=0, tokens=tokens)


def two_of_a_group() -> Recorder:
    """One of 2 tokens at lag 8; one of 8 tokens, 6 at lag 3 and 2 at lag 1; and two more."""
    recorder = Recorder()
    add(recorder, 0, lags={8: 2}, group_id=5, reward=1.0)
    add(recorder, 1, lags={3: 6, 1: 2}, group_id=5, reward=0.0)
    add(recorder, 2, lags={9: 10}, status="dropped", reward=None)
    add(recorder, 3, lags={2: 4}, consumed=None, status="queued")
    return recorder


def test_four_weightings_of_the_same_tokens_by_hand():
    # By rollout: (8 + 2.5) / 2. By token: (2 * 8 + 6 * 3 + 2 * 1) / 10. Both |A| are 1/2, so they agree.
    found = rows(two_of_a_group())
    means = {name: found["trained", name]["mean"] for name in WEIGHTINGS}
    assert means == pytest.approx({"rollout": 5.25, "token": 3.6, "loss token": 3.6, "contribution": 3.6})
    assert found["trained", OLDEST]["mean"] == pytest.approx((8 + 3) / 2)
    counted = {name: (found["trained", name]["n"], found["trained", name]["unit"]) for name in WEIGHTINGS}
    assert counted["rollout"] == (2, "rollouts")
    assert counted["token"] == counted["loss token"] == counted["contribution"] == (10, "tokens")


def test_three_populations_and_what_is_left():
    found = rows(two_of_a_group())
    assert found["dropped", "token"]["mean"] == 9.0
    assert found["offered", "token"]["mean"] == pytest.approx((36 + 90) / 20)
    # The loss never saw what was dropped.
    assert found["dropped", "loss token"]["n"] == found["dropped", "contribution"]["n"] == 0
    assert found["offered", "loss token"]["mean"] == found["trained", "loss token"]["mean"]
    # Queued at the end: 2 updates old so far, of no population; older if the trainer went on.
    assert found[LEFT, OLDEST]["mean"] == 2.0
    assert rows(two_of_a_group(), version=14)[LEFT, OLDEST]["mean"] == 6.0


def test_freshest_first_looks_fresh_and_leaves_the_old_to_rot():
    # Case B30 in small: every version makes two rollouts, the newer is used at once, the other never.
    recorder = Recorder()
    for version in range(1, 11):
        for used in (True, False):
            recorder.add_rollout(
                rollout_id=2 * version + used, status="trained" if used else "queued",
                group_id=version, consumed_version=version if used else None,
            )  # fmt: skip
            recorder.add_segment(rollout_id=2 * version + used, version=version, start_token=0, tokens=1)
    found = rows(recorder)
    assert found["trained", "token"]["mean"] == 0.0
    assert (found[LEFT, "token"]["n"], found[LEFT, "token"]["max"]) == (10, 9.0)


def test_long_trajectories_do_not_weigh_more_by_rollout():
    # Case B32: of 1 and 9 tokens, lags 1 and 9: by rollout 5.0, by token 8.2.
    recorder = Recorder()
    add(recorder, 0, lags={1: 1})
    add(recorder, 1, lags={9: 9})
    found = rows(recorder)
    assert found["trained", "rollout"]["mean"] == pytest.approx(5.0)
    assert found["trained", "token"]["mean"] == pytest.approx(8.2)


def test_a_contribution_is_the_distance_from_the_group_or_from_the_update_if_alone():
    recorder = Recorder()
    for rollout, group, reward in ((0, 0, 1.0), (1, 0, 0.0), (2, 0, 0.0), (3, 7, 0.9), (4, 8, None)):
        add(recorder, rollout, lags={1: 1}, group_id=group, reward=reward)
    sizes = advantage_sizes(run_of(recorder).rollouts)
    # The mean of the group is 1/3, of the update (1 + .9) / 4.
    assert sizes.to_dict() == pytest.approx({0: 2 / 3, 1: 1 / 3, 2: 1 / 3, 3: 0.9 - 0.475, 4: 0.0})


def test_a_group_of_equal_rewards_contributes_nothing_rather_than_nan():
    recorder = Recorder()
    add(recorder, 0, lags={1: 5}, group_id=1, reward=1.0)
    add(recorder, 1, lags={2: 5}, group_id=1, reward=1.0)
    row = rows(recorder)["trained", "contribution"]
    assert (row["n"], row["method"]) == (0, "none")


def test_the_logs_own_count_of_loss_tokens_wins():
    run = run_of(two_of_a_group())
    segments = run.segments.assign(loss_tokens=[2, 0, 2, 0, 0])
    table = lag_table(run.rollouts, segments).set_index(["population", "weighting"])
    assert table.loc[("trained", "loss token"), "mean"] == pytest.approx((2 * 8 + 2 * 1) / 4)
    assert table.loc[("trained", "loss token"), "n"] == 4
    assert table.loc[("trained", "token"), "mean"] == pytest.approx(3.6)


pieces = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=12
)


@given(pieces)
def test_weightings_agree_where_they_must(drawn):
    """All of length 4, in two versions, rewards two apart in pairs: all four weigh alike."""
    recorder = Recorder()
    for i, (first, tokens, other) in enumerate(drawn):
        for member in range(2):
            lags = {first: 4} if first == other else {first: tokens, other: 4 - tokens}
            add(recorder, 2 * i + member, lags=lags, group_id=i, reward=2.0 * member)
    found = rows(recorder)
    numbers = [
        [found["trained", name][key] for key in ("min", "mean", "p50", "p90", "p99", "max")]
        for name in WEIGHTINGS
    ]
    for other in numbers[1:]:
        assert other == pytest.approx(numbers[0])
    oldest = found["trained", OLDEST]
    assert oldest["max"] == numbers[0][-1]
    assert oldest["mean"] >= numbers[0][1]


@given(pieces)
def test_offered_is_trained_and_dropped_together(drawn):
    recorder = Recorder()
    for i, (lag, tokens, other) in enumerate(drawn):
        status = "dropped" if other % 2 else "trained"
        add(recorder, i, lags={lag: tokens + 1}, status=status)
    found = rows(recorder)
    for name in ("rollout", "token"):
        both = [found[population, name] for population in ("trained", "dropped")]
        assert found["offered", name]["n"] == sum(row["n"] for row in both)
        total = sum(row["n"] * row["mean"] for row in both if row["n"])
        assert found["offered", name]["mean"] == pytest.approx(total / found["offered", name]["n"])


def test_weights_are_never_negative_or_nan():
    run = run_of(two_of_a_group())
    parts = weighed(run.rollouts, run.segments)
    for weighting in WEIGHTINGS.values():
        assert np.isfinite(weighting(parts)).all()
        assert (weighting(parts) >= 0).all()
