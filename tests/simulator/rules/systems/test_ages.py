"""Ages of systems: what is one too old, and what is not."""

import pytest

from simulator.rules.selection import Candidate, Take
from simulator.rules.systems import ages, buffers
from simulator.rules.systems.shape import Shape
from tests.simulator.rules.counts import counts

FOUR = Shape(batch_rollouts=4)


def test_prime_rl_compares_the_step_less_one():
    # Trained at step 12, so by version 11; oldest version 3: (12 - 1) - 3 = 8 lives, oldest 2 does not.
    rule = ages.prime_rl(FOUR, max_off_policy_steps=8)
    for limit in (rule.age_limit, rule.abort):
        assert [limit((12 - 1) - oldest) for oldest in (3, 2)] == [False, True]
    # Limit 0 refuses whatever saw a second version before use.
    assert [ages.prime_rl(FOUR, max_off_policy_steps=0).age_limit(lag) for lag in (0, 1)] == [False, True]


@pytest.mark.parametrize("rule", [ages.trl, ages.glm5])
def test_ages_in_pushes_do_not_count_the_updates_since_the_last(rule):
    # A push every 2 x 3 = 6 updates; four pushes and the five updates after them are not more than four.
    limit = rule(Shape(batch_rollouts=4, updates_per_batch=2, batches_per_push=3)).age_limit
    assert [limit(lag) for lag in (4 * 6, 4 * 6 + 5, 5 * 6)] == [False, False, True]


def test_trl_runs_max_staleness_batches_at_once():
    rule = ages.trl(FOUR, max_staleness=4)
    assert rule.admission(counts(running=10, submitted=100)) == 6


def test_miles_blocks_a_producer_in_its_slot():
    # 6 slots and 2 x 4 places: the fifteenth has nowhere to be.
    rule = ages.miles(Shape(batch_rollouts=4, slots=6))
    assert rule.admission(counts(outstanding=14)) == 0
    assert rule.age_limit(10**6) is False
    assert ages.miles(FOUR, max_weight_staleness=2).age_limit(3)


def test_sao_takes_one_rollout_a_prompt_and_names_no_bound():
    assert ages.sao(FOUR).age_limit(10**6) is False
    assert ages.sao(FOUR, max_lag_updates=3).age_limit(4)
    with pytest.raises(ValueError, match="group_size must be 1, got 4"):
        ages.sao(Shape(batch_rollouts=4, group_size=4))


def _arrived(*submitted: int) -> list[Candidate]:
    return [Candidate(submitted_index=i, oldest_version=0, newest_version=0, rollouts=1) for i in submitted]


def _take(**known) -> Take:
    return Take(**{"batch_rollouts": 2, "version": 0, "taken_batches": 0, "updates_per_batch": 1} | known)


def test_minimax_lets_the_window_overtake_the_head_and_nothing_beyond():
    # N = 10, W = 3. Group 4 still runs, so the window is 4, 5, 6.
    rule = buffers.minimax_wfifo(Shape(batch_rollouts=2, slots=10))
    assert rule.selection(_arrived(8, 6, 5), _take(unfinished_indices=[4])) == [1, 2]
    assert rule.selection(_arrived(8, 7, 5), _take(unfinished_indices=[4, 6])) is None
    # Group 6 is taken already: the window of what is left is 4, 5, 7.
    assert rule.selection(_arrived(8, 7, 5), _take(unfinished_indices=[4])) == [1, 2]
    # With nothing unfinished before them, the head is the oldest that is complete.
    assert rule.selection(_arrived(8, 7, 5), _take()) == [0, 1]
    with pytest.raises(ValueError, match="holds 1 groups, less than a batch of 2"):
        buffers.minimax_wfifo(Shape(batch_rollouts=2, slots=4))


def test_torchforge_takes_any_of_them_alike():
    rule = buffers.torchforge(FOUR)
    draws = iter([0.9, 0.1, 0.5])
    assert rule.selection(_arrived(0, 1, 2), _take(uniform=lambda: next(draws))) == [1, 2]
    assert [rule.age_limit(lag) for lag in (1, 2)] == [False, True]


def test_slime_restarts_and_laminar_never_changes_weights_under_a_rollout():
    assert buffers.slime(FOUR).on_sync.running == "restart"
    assert buffers.laminar(FOUR).on_sync.engines == "when_idle"
    assert buffers.laminar(FOUR).on_sync.one_version_a_rollout
