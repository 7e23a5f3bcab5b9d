"""Dropped rollouts: case B14 by hand, and what each policy keeps as it was."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.advantage import group_centred, group_standardised, reward_minus_value
from algorithms.dropping import Dropping, drop_group, pad_by_repetition, recompute, withhold
from algorithms.rloo import rloo
from algorithms.rollout import Batch
from tests.algorithms.make import T64, bandit

POLICIES = {f.__name__: f for f in (withhold, recompute, drop_group, pad_by_repetition)}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)

groups_and_fates = st.lists(
    st.tuples(st.integers(0, 3), st.floats(-2, 2), st.booleans()), min_size=1, max_size=12
)


def made(given_rows: list[tuple[int, float, bool]]) -> tuple[Batch, Tensor]:
    groups, rewards, fates = zip(*given_rows, strict=True)
    record = bandit(list(rewards), list(groups), token_ids=torch.arange(len(groups))[:, None])
    return record, torch.tensor(fates)


def shipped(policy: Dropping, rewards: list[float], gone: list[int], groups: list[int] | None = None):
    record = bandit(rewards, groups or [5] * len(rewards), token_ids=torch.arange(len(rewards))[:, None])
    dropped = torch.zeros(len(rewards), dtype=torch.bool)
    dropped[gone] = True
    kept, advantages = policy(record, dropped, group_centred)
    return kept.token_ids[:, 0].tolist(), advantages[:, 0].tolist()


def test_b14_the_fourth_member_is_stale():
    rewards = [1.0, 0.0, 0.0, 1.0]
    assert shipped(withhold, rewards, [3]) == ([0, 1, 2], [0.5, -0.5, -0.5])
    rows, advantages = shipped(recompute, rewards, [3])
    assert rows == [0, 1, 2]
    assert advantages == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert shipped(drop_group, rewards, [3]) == ([], [])
    # The first valid member takes the fourth place.
    assert shipped(pad_by_repetition, rewards, [3]) == ([0, 1, 2, 0], [0.5, -0.5, -0.5, 0.5])


def test_other_groups_never_notice():
    rewards, groups = [1.0, 9.0, 0.0, 3.0, 0.0], [0, 1, 0, 1, 0]
    for policy, wanted in (
        (withhold, ([1, 2, 3, 4], [3, -1 / 3, -3, -1 / 3])),
        (recompute, ([1, 2, 3, 4], [3, 0, -3, 0])),
        (drop_group, ([1, 3], [3, -3])),
        (pad_by_repetition, ([2, 1, 2, 3, 4], [0, 3, 0, -3, 0])),
    ):
        rows, advantages = shipped(policy, rewards, [0], groups)
        assert rows == wanted[0]
        assert advantages == pytest.approx(wanted[1])


def test_half_is_not_more_than_half():
    rewards = [1.0, 0.0, 0.0, 1.0]
    assert shipped(pad_by_repetition, rewards, [0, 3]) == ([], [])
    rows, _ = shipped(pad_by_repetition, [1.0, 0.0, 0.0, 1.0, 2.0], [0, 3])
    assert rows == [1, 1, 2, 2, 4]
    assert shipped(pad_by_repetition, [1.0], [0]) == ([], [])


@every_policy
@given(groups_and_fates)
def test_no_dropped_rollout_is_ever_trained_on(policy: Dropping, given_rows):
    record, dropped = made(given_rows)
    kept, advantages = policy(record, dropped, group_centred)
    assert not dropped[kept.token_ids[:, 0]].any()
    assert advantages.shape == kept.action_mask.shape


@every_policy
@given(groups_and_fates)
def test_without_a_drop_nothing_happens_and_with_all_dropped_nothing_is_left(policy: Dropping, given_rows):
    record, dropped = made(given_rows)
    kept, advantages = policy(record, torch.zeros_like(dropped), group_standardised)
    assert torch.equal(kept.token_ids, record.token_ids)
    assert torch.equal(advantages, group_standardised(record))
    kept, advantages = policy(record, torch.ones_like(dropped), group_standardised)
    assert len(kept.token_ids) == len(advantages) == 0


@given(groups_and_fates)
def test_groups_that_lost_nobody_are_the_same_under_every_policy(given_rows):
    record, dropped = made(given_rows)
    whole = ~torch.isin(record.group_ids, record.group_ids[dropped])
    for policy in POLICIES.values():
        kept, advantages = policy(record, dropped, group_centred)
        untouched = torch.isin(kept.group_ids, record.group_ids[whole])
        torch.testing.assert_close(advantages[untouched], group_centred(record)[whole])


@given(groups_and_fates)
def test_withholding_is_a_weight_of_zero(given_rows):
    """The same gradient for whoever is left as a correction that drops from the numerator alone."""
    record, dropped = made(given_rows)
    weightless = dataclasses.replace(
        rloo(), correction=lambda b: (~dropped)[:, None].to(T64).where(b.action_mask, 0.0)
    )
    leaf = torch.full((len(dropped), 1), -1.0, dtype=T64, requires_grad=True)
    total = weightless.total(record)
    advantages = group_centred(record)
    weightless.loss(leaf, record, advantages=advantages, total=total).backward()
    assert leaf.grad is not None
    kept, withheld = withhold(record, dropped, group_centred)
    own = leaf.detach()[~dropped].requires_grad_()
    rloo().loss(own, kept, advantages=withheld, total=total).backward()
    torch.testing.assert_close(own.grad, leaf.grad[~dropped])
    assert (leaf.grad[dropped] == 0).all()


@given(groups_and_fates)
def test_whoever_is_left_is_centred_except_under_withhold(given_rows):
    record, dropped = made(given_rows)
    for policy in (recompute, drop_group, pad_by_repetition):
        kept, advantages = policy(record, dropped, group_centred)
        for group in kept.group_ids.unique():
            assert abs(advantages[kept.group_ids == group].sum()) < 1e-12


@pytest.mark.parametrize("policy", [recompute, drop_group, pad_by_repetition])
def test_a_crashed_rollout_needs_no_reward(policy: Dropping):
    record = bandit([1.0, 0.0, 0.5, 0.0], [0, 0, 0, 0])
    dropped = torch.tensor([False, False, False, True])
    wanted = policy(record, dropped, group_centred)[1]
    rewards = record.rewards.clone()
    rewards[3] = math.nan
    broken = dataclasses.replace(record, rewards=rewards)
    assert torch.equal(policy(broken, dropped, group_centred)[1], wanted)
    with pytest.raises(ValueError, match=r"rows \[3\] have none"):
        withhold(broken, dropped, group_centred)


def test_where_the_baseline_is_a_critics_the_first_two_agree():
    record = bandit([1.0, 0.0, 3.0], [0, 0, 1], values=torch.tensor([[0.2], [0.4], [1.0]], dtype=T64))
    dropped = torch.tensor([True, False, False])
    results = [policy(record, dropped, reward_minus_value)[1] for policy in (withhold, recompute)]
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], torch.tensor([[-0.4], [2.0]], dtype=T64))


def expected(policy: Dropping, dropped_with: Tensor) -> Tensor:
    """E of the summed gradient of groups of three, one-token responses a, b, c, all 27 groups listed."""
    pi = torch.tensor([0.5, 0.3, 0.2], dtype=T64)
    rewards = torch.tensor([1.0, 0.0, 0.4], dtype=T64)
    scores = torch.eye(3, dtype=T64) - pi
    total = torch.zeros(3, dtype=T64)
    for group in torch.cartesian_prod(*[torch.arange(3)] * 3):
        record = bandit(rewards[group].tolist(), [0, 0, 0], token_ids=group[:, None])
        for fate in torch.cartesian_prod(*[torch.tensor([False, True])] * 3):
            gone = dropped_with[group]
            chance = pi[group].prod() * gone.where(fate, 1 - gone).prod()
            kept, advantages = policy(record, fate, group_centred)
            total += chance * (advantages * scores[kept.token_ids[:, 0]]).sum(0)
    return total


@every_policy
def test_drops_that_look_at_nothing_leave_the_direction_of_the_gradient(policy: Dropping):
    never, sometimes = (expected(policy, torch.full((3,), q, dtype=T64)) for q in (0.0, 0.3))
    assert torch.cosine_similarity(never, sometimes, dim=0) == pytest.approx(1, abs=1e-12)
    if policy is withhold:
        # Each rollout's own term, and no other, is lost with its own chance.
        torch.testing.assert_close(sometimes, 0.7 * never)


@pytest.mark.parametrize("policy", [withhold, recompute])
def test_drops_that_look_at_the_response_do_not(policy: Dropping):
    q = torch.tensor([0.0, 0.0, 0.8], dtype=T64)
    kept = expected(policy, q)
    assert torch.cosine_similarity(kept, expected(policy, 0 * q), dim=0) < 0.999
