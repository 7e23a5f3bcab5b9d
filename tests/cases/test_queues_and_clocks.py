"""Reported faults of queues, groups that wait, slots that leak, and clocks that drift."""

import numpy as np
import pytest
import simpy

from analysis.measures.lag import lag_summary
from simulator import theory
from simulator.config import Sync
from simulator.pipeline.workload import UpdateResult
from simulator.rules.admission import always
from simulator.rules.selection import fifo, freshest_first
from simulator.rules.staleness import Staleness
from simulator.world.decoding import FixedSpeed
from simulator.world.episodes import Episode, MultiTurn
from simulator.world.failures import Failures
from simulator.world.lengths import Exponential, Fixed
from tests.simulator.pipeline.test_episodes import Episodes
from tests.simulator.runs import Lengths, column, in_turn, simulate, trained

STUCK_TOKENS = 10**6


def groups(group_size: int, count: int, stuck: float) -> Lengths:
    """Members that take Exp(1) seconds at a millisecond a token, or are stuck."""
    rng = np.random.default_rng(group_size)
    shape = (2 * count, group_size)
    tokens = 1 + np.floor(1000 * rng.exponential(size=shape)).astype(int)
    tokens[rng.random(shape) < stuck] = STUCK_TOKENS
    return Lengths(lambda prompt, member: int(tokens[prompt, member]))


def one_at_a_time(group_size: int, count: int, stuck: float, **changes):
    """So many groups, each after the other has been trained, which takes no time."""
    workload = groups(group_size, count, stuck)
    return workload, simulate(
        workload=workload,
        slots=group_size,
        group_size=group_size,
        rollouts_per_update=group_size,
        updates=count,
        policy_update_s=0.0,
        engine=FixedSpeed(seconds_per_token=1e-3),
        staleness=Sync(),
        **changes,
    )


@pytest.mark.parametrize(("group_size", "expected_s"), [(1, 1.0), (8, 2.718), (16, 3.381)])
def test_a_group_takes_as_long_as_its_slowest_member(group_size, expected_s):
    """B11: members of Exp(1) seconds: the group takes H_G."""
    assert theory.tail_ratio_exponential(group_size) == pytest.approx(expected_s, abs=1e-3)
    _, result = one_at_a_time(group_size, 1000, 0.0)
    rows = trained(result)
    took_s = (rows.group_ready_s - rows.started_s).groupby(rows.group_id).first()
    assert len(took_s) == 1000
    assert took_s.mean() == pytest.approx(expected_s, abs=4 * took_s.std() / np.sqrt(1000))
    waits_s = rows.group_ready_s - rows.finished_s
    assert waits_s.eq(0).all() if group_size == 1 else waits_s.mean() > 1


@pytest.mark.parametrize(("group_size", "waits"), [(1, 0.02), (8, 0.149), (16, 0.276)])
def test_a_deadline_ends_the_wait_for_a_stuck_member_and_is_counted(group_size, waits):
    """B11: each member is stuck with probability .02, and would hold its group for ever."""
    assert 1 - 0.98**group_size == pytest.approx(waits, abs=5e-4)
    workload, result = one_at_a_time(group_size, 1000, 0.02, failures=Failures(group_deadline_s=30.0))
    prompts = result.log.rollouts.to_pandas().prompt_id.unique()
    stuck = [
        any(workload.length_tokens(p, m) == STUCK_TOKENS for m in range(group_size)) for p in prompts.tolist()
    ]
    assert result.failures["groups_overdue"] == result.failures["groups_dropped"] == sum(stuck)
    error = np.sqrt(waits * (1 - waits) / len(prompts))
    assert np.mean(stuck) == pytest.approx(waits, abs=4 * error)
    assert len(trained(result)) == 1000 * group_size


@pytest.mark.parametrize(
    ("selection", "mean_age_s", "oldest_left_s"), [(fifo, 375.0, 500.0), (freshest_first, 0.0, 1000.0)]
)
def test_what_looks_fresh_leaves_the_rest_to_rot(selection, mean_age_s, oldest_left_s):
    """B30: 2 arrivals and 1 use a second, 1000 s: first in, first out, against freshest first."""
    result = simulate(
        slots=2,
        lengths=Fixed(tokens=1),
        updates=1000,
        policy_update_s=1.0,
        rule=Staleness(admission=always, selection=selection),
    )
    used = trained(result)
    second_half_s = (used.consumed_s - used.enqueued_s).iloc[500:]
    assert second_half_s.mean() == mean_age_s
    rows = result.log.rollouts.to_pandas()
    left = rows[rows.status == "queued"]
    assert len(left) == pytest.approx(1000, abs=2)
    assert result.end_s - left.enqueued_s.min() == pytest.approx(oldest_left_s, abs=1)
    # waste stands next to age
    assert result.ledger.rollouts["queued"] == len(left)


@pytest.mark.parametrize("updates_per_batch", [1, 2])
def test_a_trainer_twice_as_fast_trains_on_nothing_twice(updates_per_batch):
    """B34: every rollout is used once, and the trainer waits for half of the time."""

    class Counts(Lengths):
        def train(self, update):
            seen.extend(rollout.rollout_id for rollout in update.rollouts)
            return UpdateResult()

    seen: list[int] = []
    result = simulate(
        workload=Counts(lambda *_: 2),
        slots=4,
        group_size=2,
        rollouts_per_update=4,
        updates_per_batch=updates_per_batch,
        updates=40,
        policy_update_s=1.0,
    )
    assert len(seen) == len(set(seen)) == 160
    assert sorted(seen) == sorted(trained(result).rollout_id)
    waits = result.log.intervals.to_pandas().query("resource == 'trainer' and cause == 'no_batch'")
    assert (waits.end_s - waits.start_s).sum() / result.end_s == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("gives_back", "waits_s", "holds_s"), [(True, 5, 15), (False, 23, 35)])
def test_a_slot_that_is_not_given_back_is_lost(gives_back, waits_s, holds_s):
    """D02, in SimPy: one slot. A waiter, and then a holder, is interrupted; a third comes at 3 and 15.

    The third gives up after 20 s.
    """

    def third(env, slot, comes_s, got):
        yield env.timeout(comes_s)
        asked = slot.request()
        yield asked | env.timeout(20)
        got.append(env.now)

    def holder(env, slot):
        with slot.request() as asked:
            yield asked
            yield env.timeout(5)

    def interrupted(env, slot):
        asked = slot.request()
        try:
            yield asked
            yield env.timeout(5)
        except simpy.Interrupt:
            if gives_back:
                asked.cancel()
                slot.release(asked)

    def interrupts(env, process, at_s):
        yield env.timeout(at_s)
        process.interrupt()

    def run(first, at_s, comes_s):
        env, got = simpy.Environment(), []
        slot = simpy.Resource(env, capacity=1)
        if first is not None:
            env.process(first(env, slot))
        env.process(interrupts(env, env.process(interrupted(env, slot)), at_s))
        env.process(third(env, slot, comes_s, got))
        env.run()
        return got

    assert run(holder, 2, 3) == [waits_s]
    assert run(None, 5, 15) == [holds_s]


def test_a_holder_that_is_given_up_frees_its_slot():
    """D02: one slot. The first rollout would hold it for 100 s and is given up at 5; the next starts then."""
    result = simulate(workload=in_turn(100, 3), updates=1, failures=Failures(group_deadline_s=5.0))
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert (rows.loc[0, "status"], rows.loc[0, "consumed_s"]) == ("dropped", 5)
    assert (rows.loc[1, "started_s"], rows.loc[1, "finished_s"]) == (5, 8)


def test_a_waiter_that_is_given_up_takes_no_slot():
    """D02: one slot, held until 8. Who waits for it from 5 on is given up at 6; a third is served at 8."""
    waiter = Episode((1, 3), (0,), (4.0,))  # decodes from 0 to 1, its tool works until 5
    result = simulate(
        workload=Episodes(waiter, Episode((2,)), Episode((5,)), Episode((2,))),
        episode=MultiTurn(slot_between_turns="freed"),
        environments=2,
        updates=3,
        failures=Failures(group_deadline_s=6.0),
    )
    rows = result.log.rollouts.to_pandas().sort_values("rollout_id").set_index("prompt_id")
    assert (rows.loc[0, "status"], rows.loc[0, "consumed_s"], rows.loc[0, "action_tokens"]) == (
        "dropped",
        6,
        1,
    )
    assert rows.loc[[1, 2, 3], "started_s"].tolist() == [1, 3, 8]
    assert rows.loc[3, "finished_s"] == 10


def test_ticks_are_counted_and_not_summed():
    """D05: a rollout's tokens are places on a clock: 10 steps of .1 s are 1 s, and a million 100,000 s."""
    assert sum([0.1] * 10) == 0.9999999999999999
    tenth = FixedSpeed(seconds_per_token=0.1)
    for tokens, ends_s in ((10, 1.0), (10**6, 100_000.0)):
        result = simulate(workload=in_turn(tokens), engine=tenth, updates=1)
        assert column(result, "rollouts", "finished_s")[0] == ends_s


def test_a_sum_of_times_that_rounds_is_the_same_instant():
    """D05: rollouts of one step of .1 s; the tenth ends at .9999999999999999, and a push falls on 1.0."""
    tenth = FixedSpeed(seconds_per_token=0.1)
    result = simulate(workload=in_turn(1), engine=tenth, updates=2, policy_update_s=0.9)
    assert column(result, "updates", "published_s")[0] == 1.0
    rows = result.log.rollouts.to_pandas().sort_values("rollout_id")
    assert rows.finished_s.iloc[9] == 0.9999999999999999
    # exactly ten belong to version 0, and the eleventh, which begins a rounding error early, to version 1
    assert (rows.first_version == 0).sum() == 10
    assert rows.first_version.iloc[10] == 1


def test_a_percentile_of_few_names_its_method_and_pools_are_not_averaged():
    """D18: 1 to 20, and the pools of 99 times 1 and 100, and of one 50."""
    twenty = np.arange(1.0, 21.0)
    linear, step = lag_summary(twenty), lag_summary(twenty, np.ones(20))
    assert (linear["n"], linear["method"]) == (20, "linear interpolation")
    assert linear["p99"] == pytest.approx(19.81)
    assert (step["n"], step["p99"], step["method"]) == (20, 20.0, "inverted weighted CDF")
    # of twenty, the largest reaches the true 99th percentile in 18 of 100 samples only
    law = Exponential(mean_tokens=1e6)
    drawn = law.quantile(np.random.default_rng(0).random((20_000, 20))).max(axis=1)
    reached = (drawn >= law.quantile(np.array([0.99]))).mean()
    share = 1 - 0.99**20
    assert share == pytest.approx(0.182, abs=5e-4)
    assert reached == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 20_000))
    one, other = np.array([*[1.0] * 99, 100.0]), np.array([50.0])
    assert lag_summary(np.concatenate([one, other]))["p50"] == 1.0
    assert np.mean([lag_summary(one)["p50"], lag_summary(other)["p50"]]) == 25.5
