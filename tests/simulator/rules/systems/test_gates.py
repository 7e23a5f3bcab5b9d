"""Gates of systems, each off-by-one computed by hand."""

import pytest

from simulator.rules.selection import Candidate, Take
from simulator.rules.systems import gates, nemo, rounds, verl
from simulator.rules.systems.shape import Shape, whole_groups
from tests.simulator.rules.counts import counts

FOUR = Shape(batch_rollouts=4)


def test_areal_and_skyrl_say_the_same_in_other_words():
    # eta = 2, v = 0, B = 4: 12 may be submitted. SkyRL works on step 1 then: (2 + 1) x 4.
    for rule in (gates.areal(FOUR, max_head_offpolicyness=2), gates.skyrl(FOUR, max_staleness_steps=2)):
        assert rule.admission(counts()) == 12
        assert rule.admission(counts(version=1, submitted=12)) == 4
    capped = gates.areal(Shape(batch_rollouts=32), max_head_offpolicyness=10, max_concurrent_rollouts=100)
    assert capped.admission(counts(batch=32)) == 100


def test_areal_trains_the_oldest_started_first_and_recomputes_prefixes():
    rule = gates.areal(FOUR)
    arrived = [
        Candidate(submitted_index=i, oldest_version=0, newest_version=0, rollouts=2) for i in (5, 1, 3)
    ]
    take = Take(batch_rollouts=4, version=0, taken_batches=0, updates_per_batch=1)
    assert rule.selection(arrived, take) == [1, 2]
    assert (rule.on_sync.running, rule.on_sync.one_version_a_rollout) == ("recompute", False)


@pytest.mark.parametrize(("alpha", "first"), [(0.0, 4), (1.0, 8), (1.5, 10), (0.3, 6)])
def test_roll_admits_a_fraction_of_a_batch_more_at_first_and_a_batch_a_step_after(alpha: float, first: int):
    rule = gates.roll(FOUR, async_generation_ratio=alpha)
    assert rule.admission(counts()) == first
    assert rule.admission(counts(version=1, submitted=first)) == 4


def test_roll_aborts_what_began_before_step_minus_ceil_alpha():
    # alpha = 1.5, so ceil = 2: at step 5 what began at step 3 lives, what began at step 2 does not.
    rule = gates.roll(FOUR, async_generation_ratio=1.5)
    assert [rule.abort(5 - start) for start in (3, 2)] == [False, True]
    # Four updates a batch: versions 20, 12 and 8; the fourth update on a batch adds three and no step.
    rule = gates.roll(Shape(batch_rollouts=4, updates_per_batch=4), async_generation_ratio=1.5)
    assert [rule.abort(lag) for lag in (20 - 12, 20 - 12 + 3, 20 - 8)] == [False, False, True]


def test_tinker_has_k_plus_one_batches_untrained_and_drops_beyond_k_steps():
    rule = gates.tinker(FOUR, max_steps_off_policy=2)
    assert rule.admission(counts()) == 12
    assert rule.admission(counts(submitted=12, trained_rollouts=3)) == 3
    assert [rule.age_limit(lag) for lag in (2, 3)] == [False, True]


def test_open_instruct_trains_all_that_was_in_flight_at_the_start():
    # async_steps = 2: two batches in flight. They are trained at training_step 1 and 2 with model_step 0.
    rule = gates.open_instruct(FOUR, async_steps=2)
    assert rule.admission(counts()) == 8
    training_step_minus_model_step = {1: False, 2: False, 3: True}
    for difference, dropped in training_step_minus_model_step.items():
        assert rule.age_limit(difference - 1) is dropped


def test_pipelinerl_adds_whole_groups_to_those_of_one_update():
    # max_lag 10 samples in groups of 4: three groups more than the two of an update, so 20 rollouts.
    shape = Shape(batch_rollouts=8, group_size=4)
    rule = gates.pipelinerl(shape, max_lag_samples=10)
    assert rule.admission(counts(batch=8)) == 20
    assert rule.admission(counts(batch=8, submitted=20, trained_rollouts=8)) == 8
    assert gates.pipelinerl(shape).admission(counts(batch=8)) > 10**9


def test_verl_fully_async_counts_what_was_carried_over_a_sync():
    # trigger 2, batches of 4, threshold .5: 12 between two syncs.
    shape = Shape(batch_rollouts=4, batches_per_push=2)
    rule = verl.verl_fully_async(shape, staleness_threshold=0.5)
    assert rule.admission(counts()) == 12
    seen = counts(submitted=12, outstanding_at_publish_rollouts=4, submitted_since_publish_rollouts=3)
    assert rule.admission(seen) == 5
    # As many queue; one more and the oldest goes.
    assert [rule.overflow(queued) for queued in (12, 13)] == [0, 1]
    zero = verl.verl_fully_async(shape, staleness_threshold=0.0)
    assert zero.admission(counts()) == 8


def test_verl_v1_drops_at_an_age_that_counts_its_own_step():
    # Started at step 3. At step 10: 10 - 3 + 1 = 8, not above 8. At step 11: 9, dropped.
    rule = verl.verl_v1_drop(FOUR, max_age_steps=8)
    assert [rule.age_limit(step - 3) for step in (10, 11)] == [False, True]


def test_verl_v1_waits_for_what_has_reached_the_age():
    rule = verl.verl_v1_wait(FOUR, max_age_steps=8)
    arrived = [Candidate(submitted_index=9, oldest_version=10, newest_version=10, rollouts=4)]

    def taken(oldest_running: int | None):
        take = Take(
            batch_rollouts=4,
            version=10,
            taken_batches=10,
            updates_per_batch=1,
            oldest_running_version=oldest_running,
        )
        return rule.selection(arrived, take)

    # 10 - 4 + 1 = 7 has not reached 8; 10 - 3 + 1 = 8 has.
    assert taken(None) == taken(4) == [0]
    assert taken(3) is None


def test_nemo_dispatches_a_window_ahead_of_the_trainers_own_version():
    for rule in (nemo.nemo_ready_first(FOUR, window_steps=2), nemo.nemo_in_order(FOUR, window_steps=2)):
        # Batches 0 and 1 may be dispatched at version 0; batch 2 when the trainer is at 1, pushed or not.
        assert rule.admission(counts()) == 8
        assert rule.admission(counts(submitted=8, trainer_version_batches=1)) == 4


def test_nemo_in_order_trains_batch_k_and_nothing_else():
    rule = nemo.nemo_in_order(FOUR)
    arrived = [
        Candidate(submitted_index=i, oldest_version=0, newest_version=0, rollouts=2) for i in (3, 4, 2)
    ]

    def taken(batches: int):
        return rule.selection(
            arrived,
            Take(batch_rollouts=4, version=batches, taken_batches=batches, updates_per_batch=1),
        )

    assert taken(0) is None  # groups 0 and 1 are not there
    assert taken(1) == [2, 0]
    assert taken(2) is None  # group 5 is missing


def test_nemo_windowed_evicts_what_began_before_the_window():
    rule = nemo.nemo_windowed(FOUR, max_trajectory_age_steps=1)
    for limit in (rule.age_limit, rule.abort):
        assert [limit(lag) for lag in (1, 2)] == [False, True]


def test_kimi_holds_a_round_of_which_a_batch_is_a_share():
    rule = rounds.kimi_partial(FOUR, finished_share=0.5)
    assert rule.admission(counts()) == 8
    assert rule.admission(counts(submitted=12, outstanding=4)) == 4
    assert rule.colocated
    assert rounds.kimi_partial(FOUR, finished_share=1.0).admission(counts()) == 4


def test_openrlhf_starts_the_next_batch_when_this_one_is_taken():
    rule = rounds.openrlhf(FOUR)
    assert [rule.admission(counts(submitted=4, taken=taken)) for taken in (0, 1)] == [0, 4]
    assert rule.on_sync.running == "drain"
    assert rounds.openrlhf(FOUR, partial_rollout=True).on_sync.running == "recompute"


def test_a_system_refuses_what_it_cannot_be():
    for make, why in (
        (lambda: gates.roll(FOUR, async_generation_ratio=-1), "async_generation_ratio"),
        (lambda: gates.pipelinerl(FOUR, max_lag_samples=-1), "max_lag_samples"),
        (lambda: gates.open_instruct(FOUR, async_steps=0), "async_steps"),
        (lambda: nemo.nemo_in_order(FOUR, window_steps=0), "window_steps"),
        (lambda: verl.verl_fully_async(FOUR, staleness_threshold=-0.1), "staleness_threshold"),
        (lambda: verl.verl_v1_drop(FOUR, max_age_steps=0), "max_age_steps"),
        (lambda: rounds.kimi_partial(FOUR, finished_share=0), "finished_share"),
        (lambda: Shape(batch_rollouts=6, group_size=4), "group_size"),
    ):
        with pytest.raises(ValueError, match=why):
            make()


def test_whole_groups_never_round_up():
    shape = Shape(batch_rollouts=8, group_size=8)
    assert [whole_groups(n, shape) for n in (7, 8, 15.9, 8 * 1.1)] == [0, 8, 8, 8]
