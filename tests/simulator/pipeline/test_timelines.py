"""Timelines small enough to draw on paper."""

import math

import pytest

from simulator.config import BoundedLag, DropByAge, OneStepOff, Sync, Unbounded
from simulator.world.lengths import Fixed
from tests.simulator.runs import Lengths, column, in_turn, lags, simulate, trained


def test_sync_generates_then_trains():
    # generate 3 s, train 2 s, nothing overlaps
    result = simulate(staleness=Sync())
    assert column(result, "updates", "train_end_s") == [5, 10, 15, 20]
    assert set(lags(result)) == {0}
    assert result.end_s == 20


def test_a_lag_of_one_batch_hides_training_behind_generation():
    # the first update ends at 5 s; then one every 3 s, the slower of the two stages
    result = simulate(staleness=BoundedLag(eta_batches=1))
    assert column(result, "updates", "train_end_s") == [5, 8, 11, 14]
    # rollout 1 decodes from 3 to 6 and sees version 1 at 5: its oldest token is one update old at 6
    assert list(lags(result)) == [0, 1, 1, 1]


def test_one_step_off_is_exactly_one_batch_old():
    result = simulate(staleness=OneStepOff(), updates=5)
    assert column(result, "updates", "train_end_s") == [5, 8, 11, 14, 17]
    # weights wait for the batch being generated: published when it is done, not when training is
    assert column(result, "updates", "published_s") == [6, 9, 12, 15, 18]
    assert list(lags(result)) == [0, 1, 1, 1, 1]
    assert set(column(result, "segments", "start_token")) == {0}  # one version a rollout


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("group_size", [1, 2])
def test_one_step_off_is_exactly_one_batch_old_with_any_number_of_slots(slots, group_size):
    result = simulate(
        staleness=OneStepOff(),
        workload=Lengths(lambda prompt, member: 1 + (5 * prompt + 3 * member) % 7),
        slots=slots,
        group_size=group_size,
        rollouts_per_update=4,
        updates=10,
    )
    assert list(lags(result)) == [0] * 4 + [1] * 36


def test_weights_are_pushed_after_every_so_many_batches():
    # one slot, 3 s a rollout; a batch is one rollout and trains for 2 s, a push takes 1 s
    result = simulate(batches_per_push=2, push_s=1.0)
    assert column(result, "updates", "train_end_s") == [5, 8, 11, 14]
    assert column(result, "updates", "published_s") == [9, 9, 15, 15]
    # the fourth rollout starts at 9, as the push ends; the fifth is under way when the run ends
    assert list(lags(result)) == [0, 1, 2, 1]
    assert column(result, "segments", "version") == [0, 0, 0, 2, 2]


def test_a_gate_that_lets_too_few_batches_start_for_a_push_is_refused():
    assert simulate(batches_per_push=2, staleness=BoundedLag(eta_batches=1)).end_s > 0
    for rule in (Sync(), BoundedLag(eta_batches=0)):
        with pytest.raises(ValueError, match="does not start the 2 batches that the next push needs"):
            simulate(batches_per_push=2, staleness=rule)
    with pytest.raises(ValueError, match=r"updates \(4\) is not a multiple of updates_per_push \(3\)"):
        simulate(batches_per_push=3)


def test_minibatch_updates_age_even_synchronous_data():
    # one batch of 2 updates: its second update meets rollouts that are one update old
    result = simulate(staleness=Sync(), updates_per_batch=2, slots=2, updates=4)
    assert list(lags(result)) == [0, 1, 0, 1]
    # generate 3, train 2 + 2, publish
    assert column(result, "updates", "train_end_s") == [5, 7, 12, 14]
    assert column(result, "updates", "published_s") == [7, 7, 14, 14]
    assert column(result, "updates", "wait_start_s") == [0, 5, 7, 12]


def test_a_push_takes_the_trainers_time_and_delays_synchronous_generation():
    result = simulate(staleness=Sync(), push_s=1.0, updates=2)
    assert column(result, "updates", "train_end_s") == [5, 11]
    assert column(result, "updates", "published_s") == [6, 12]
    assert column(result, "rollouts", "started_s") == [0, 6]


def test_critic_updates_come_before_each_policy_update():
    result = simulate(staleness=Sync(), critic_update_s=0.5, critic_updates=2, updates=1)
    rows = [row for row in result.log.intervals.to_pylist() if row["resource"] == "trainer"]
    assert [(row["cause"], row["start_s"], row["end_s"]) for row in rows] == [
        ("no_batch", 0, 3),
        ("critic_update", 3, 3.5),
        ("critic_update", 3.5, 4),
        ("policy_update", 4, 6),
    ]


def test_trainer_time_may_grow_with_tokens():
    result = simulate(staleness=Sync(), policy_update_s=0.0, policy_update_s_per_token=0.5, updates=2)
    assert column(result, "updates", "train_end_s") == [4.5, 9]


def test_a_group_waits_for_its_slowest_member():
    # group of 2 on 2 slots: members of 1 and 4 s; the trainer cannot start before 4
    result = simulate(
        staleness=Sync(),
        workload=Lengths(lambda _prompt, member: (1, 4)[member]),
        slots=2,
        group_size=2,
        rollouts_per_update=2,
        updates=1,
    )
    assert column(result, "rollouts", "finished_s") == [1, 4]
    assert column(result, "rollouts", "group_ready_s") == [4, 4]
    assert column(result, "updates", "train_start_s") == [4]


def test_single_rollouts_wait_for_nobody():
    # B11: two slots, one stuck for 100 s; rollouts of 1 s from the other slot feed the trainer
    result = simulate(workload=in_turn(100, 1), slots=2, updates=4, policy_update_s=1.0)
    assert column(result, "updates", "train_start_s") == [1, 2, 3, 4]


def test_first_in_first_out_by_time_of_finishing():
    # lengths 5, 1, 2 on 3 slots: trained in the order 1, 2, 0
    result = simulate(workload=in_turn(5, 1, 2, 50), slots=3, updates=3, policy_update_s=0.1)
    assert list(trained(result).rollout_id) == [1, 2, 0]


def test_the_queue_drops_its_oldest_when_full():
    # one rollout a second, 10 s an update: the queue of 2 always holds the two newest
    result = simulate(
        lengths=Fixed(tokens=1),
        policy_update_s=10.0,
        updates=2,
        queue_capacity_rollouts=2,
        staleness=Unbounded(),
    )
    # rollout 0 trains from 1 to 11; at 11 the queue holds those that finished at 10 and 11
    assert list(trained(result).rollout_id) == [0, 9]
    dropped = result.log.rollouts.to_pandas().query("status == 'dropped'")
    assert set(dropped.reason) == {"queue_full"}
    assert list(dropped.rollout_id)[:8] == list(range(1, 9))


def test_a_trainer_that_waits_takes_before_the_queue_overflows():
    # 4 rollouts end at once, capacity 2, batch 2: the trainer takes 2, the queue holds 2, none is lost
    result = simulate(
        slots=4,
        rollouts_per_update=2,
        queue_capacity_rollouts=2,
        updates=1,
        staleness=Unbounded(),
        policy_update_s=0.5,
    )
    assert result.ledger.rollouts["dropped"] == 0
    assert result.ledger.rollouts["queued"] == 2


def test_back_pressure_stops_the_slots():
    # at most 2 rollouts started and not taken; the trainer takes one every 10 s
    result = simulate(
        lengths=Fixed(tokens=1),
        policy_update_s=10.0,
        updates=3,
        max_outstanding_rollouts=2,
        staleness=Unbounded(),
    )
    # 0 starts at 0, is taken at 1; 1 and 2 follow and wait; 3 may start when 1 is taken at 11
    assert sorted(column(result, "rollouts", "started_s")) == [0, 1, 2, 11, 21]
    assert result.ledger.dropped_by_reason == {}


def test_age_at_consumption_counts_the_queue():
    # B06: a quick rollout finishes before any update, waits for 3 of them, and is too old for a limit of 2
    quick = in_turn(2, 2, 2, 2, 2, 1)  # 5 rollouts are there before the first update ends
    result = simulate(
        workload=quick, slots=5, updates=5, policy_update_s=4.0, staleness=DropByAge(max_lag_updates=2)
    )
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert list(rows.loc[[0, 1, 2], "status"]) == ["trained"] * 3
    assert list(rows.loc[[3, 4], "status"]) == ["dropped"] * 2
    assert list(rows.loc[[3, 4], "reason"]) == ["too_old"] * 2
    # nothing of its lag came from decoding: one version sampled all of it
    assert rows.loc[3, "first_version"] == rows.loc[3, "last_version"] == 0
    assert rows.loc[3, "consumed_version"] - rows.loc[3, "oldest_version"] == 3


def test_until_is_exclusive():
    result = simulate(staleness=Sync(), until_s=5.0)
    assert result.end_s == 5
    assert column(result, "updates", "version") == []
    assert result.ledger.rollouts["training"] == 1
    assert column(simulate(staleness=Sync(), until_s=5.001), "updates", "version") == [1]
    assert column(simulate(staleness=Sync(), until_s=100.0), "updates", "version") == [1, 2, 3, 4]


def test_a_run_may_end_before_anything_finished():
    result = simulate(until_s=1.0)
    assert column(result, "rollouts", "status") == ["in_flight"]
    assert column(result, "rollouts", "oldest_version") == [None]
    assert result.log.segments.num_rows == result.log.updates.num_rows == 0


@pytest.mark.parametrize("until_s", [0.0, -1.0, math.nan, math.inf])
def test_a_run_ends_at_a_time(until_s):
    with pytest.raises(ValueError, match="until_s must be finite and greater than 0"):
        simulate(until_s=until_s)


def test_an_update_that_was_never_pushed_has_no_publish_time():
    result = simulate(staleness=Sync(), push_s=1.0, until_s=5.5)
    assert column(result, "updates", "published_s") == [None]


def test_the_workload_sees_every_update_and_every_publish():
    workload = in_turn(3)
    simulate(workload=workload, updates_per_batch=2, slots=2, updates=4, staleness=Sync())
    assert [update.version for update in workload.updates] == [0, 1, 2, 3]
    assert [update.index_in_batch for update in workload.updates] == [0, 1, 0, 1]
    assert workload.published == [2, 4]
