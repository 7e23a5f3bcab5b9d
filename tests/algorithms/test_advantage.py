import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.advantage import (
    group_centred,
    leave_one_out,
    moments,
    population_std,
    require_groups,
    reward_minus_value,
    running_mean,
    sample_std,
    whiten,
    whitened,
)
from algorithms.cispo import scalerl
from tests.algorithms.make import T64, bandit, batch, rows, terminal


def close(got: Tensor, wanted: list[float], atol: float = 1e-12) -> None:
    torch.testing.assert_close(got.flatten(), torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=0)


@pytest.mark.parametrize("scale", [None, sample_std, population_std])
def test_a01_a_group_of_one_is_exactly_zero(scale):
    assert group_centred(bandit([0.7], [0]), scale=scale).tolist() == [[0.0]]


def test_a01_front_doors_refuse_a_group_of_one_by_name():
    with pytest.raises(ValueError, match=r"group_ids \[7\] have G=1 rollout each \(1 of 2 groups\)"):
        require_groups(bandit([0.7, 1.0, 0.0], [7, 3, 3]))
    require_groups(bandit([1.0, 0.0], [3, 3]))


def test_a02_single_rollouts_learn_from_values_not_from_groups():
    singles = bandit([1.0, 0.0, 1.0, 0.0], [0, 1, 2, 3])
    assert group_centred(singles, scale=sample_std).flatten().tolist() == [0.0] * 4
    valued = dataclasses.replace(singles, values=rows([0.25], [0.25], [0.75], [0.75]))
    close(reward_minus_value(valued), [0.75, -0.25, 0.25, -0.75])
    raw = dataclasses.replace(singles, values=torch.zeros(4, 1, dtype=T64))
    close(whitened(reward_minus_value)(raw), [0.866025, -0.866025, 0.866025, -0.866025], atol=5e-7)


def test_a03_without_a_peer_leave_one_out_is_zero():
    assert leave_one_out(bandit([5.0], [0])).tolist() == [[0.0]]
    assert leave_one_out(bandit([5.0, 5.0], [0, 1])).flatten().tolist() == [0.0, 0.0]


def test_a07_groups_are_found_by_id_and_survive_a_lost_member():
    rewards, groups = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [5, 5, 5, 2, 2, 2, 2]
    close(group_centred(bandit(rewards, groups)), [1 / 3, -2 / 3, 1 / 3, -0.25, -0.25, -0.25, 0.75])


def test_a07_equal_prompts_with_different_ids_stay_apart():
    same_prompt = bandit([1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], prompt_ids=torch.zeros(4, dtype=torch.long))
    close(group_centred(same_prompt), [0.5, -0.5, 0.0, 0.0])


@given(st.data())
def test_a07_any_row_order_gives_each_row_the_same(data):
    n = data.draw(st.integers(1, 12))
    rewards = data.draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n))
    groups = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    order = data.draw(st.permutations(range(n)))
    whole = bandit(rewards, groups)
    for advantage in (group_centred, leave_one_out):
        torch.testing.assert_close(
            advantage(whole.rows(torch.tensor(order))), advantage(whole)[torch.tensor(order)]
        )


def test_a08_an_easy_prompt_keeps_its_signal_beside_a_rich_one():
    both = bandit([1.0, 1.0, 0.0, 0.0, 10.0, 10.0, 0.0, 0.0], [0] * 4 + [1] * 4)
    close(group_centred(both, scale=sample_std), [0.866025, 0.866025, -0.866025, -0.866025] * 2, atol=2e-6)


def test_e06_published_standard_deviations_of_three_right_in_eight():
    b = bandit([1.0] * 3 + [0.0] * 5, [0] * 8)
    close(group_centred(b, scale=sample_std), [1.20761] * 3 + [-0.72457] * 5, atol=1e-5)
    close(group_centred(b, scale=population_std), [1.29099] * 3 + [-0.77460] * 5, atol=1e-5)
    close(leave_one_out(b), [0.71429] * 3 + [-0.42857] * 5, atol=1e-5)


def test_leave_one_out_fixture_of_a_public_suite():
    close(leave_one_out(bandit([6.0, 3.0, 9.0, 12.0, 1.0], [0, 0, 1, 1, 2])), [3.0, -3.0, -3.0, 3.0, 0.0])


def test_equal_rewards_carry_no_signal_however_they_round():
    # Three times 0.1: their mean is not 0.1, and the error over its own deviation would be of order 1.
    b = bandit([0.1] * 3, [0] * 3)
    assert (group_centred(b, scale=sample_std, eps=1e-30) == 0).all()


def test_advantages_are_zero_off_the_action_tokens():
    action = torch.tensor([[1, 0, 1], [1, 1, 0]]).bool()
    b = batch(action, rewards=terminal(action, [1.0, 0.0]), group_ids=torch.zeros(2, dtype=torch.long))
    assert group_centred(b).tolist() == [[0.5, 0.0, 0.5], [-0.5, -0.5, 0.0]]


def test_running_mean_subtracts_the_baseline_it_is_given():
    b = bandit([1.0, 0.0], [0, 1], baselines=torch.tensor([0.25, 0.5], dtype=T64))
    close(running_mean(b), [0.75, -0.5])
    with pytest.raises(ValueError, match="baselines"):
        running_mean(bandit([1.0], [0]))


def test_reward_minus_value_counts_rewards_still_to_come():
    b = batch([[1, 0, 1]], rewards=rows([1.0, float("nan"), 2.0]), values=rows([0.5, float("nan"), 0.25]))
    close(reward_minus_value(b), [2.5, 0.0, 1.75])
    with pytest.raises(ValueError, match="values"):
        reward_minus_value(bandit([1.0], [0]))


def test_a41_whitening_is_one_map_for_all_ranks():
    ranks = [torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=T64), torch.tensor([[10.0, 20.0]], dtype=T64)]
    masks = [torch.ones_like(r, dtype=torch.bool) for r in ranks]
    empty = moments(torch.zeros(0, 3, dtype=T64), torch.zeros(0, 3, dtype=torch.bool))
    total = sum((moments(r, m) for r, m in zip(ranks, masks, strict=True)), start=empty)
    got = torch.cat([whiten(r, m, total=total)[0] for r, m in zip(ranks, masks, strict=True)])
    close(got, [-0.78084, -0.64304, -0.50525, -0.36745, 0.45932, 1.83726], atol=5e-6)


def test_a41_a_single_token_is_left_alone_and_padding_is_not_a_zero():
    one = torch.tensor([[5.0]], dtype=T64)
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert whiten(one, mask, total=moments(one, mask)).tolist() == [[5.0]]
    padded = torch.tensor([[1.0, 2.0, 3.0, float("nan"), float("nan")]], dtype=T64)
    valid = ~padded.isnan()
    close(whiten(padded, valid, total=moments(padded, valid)), [-1.0, 0.0, 1.0, 0.0, 0.0], atol=1e-7)
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    assert (whiten(padded[:, :2].expand(2, 2), nothing, total=torch.zeros(3, dtype=T64)) == 0).all()


def test_group_centred_ignores_a_shift_of_reward():
    torch.testing.assert_close(
        group_centred(bandit([1.0, 2.0, 4.0], [0, 0, 0])), group_centred(bandit([8.0, 9.0, 11.0], [0, 0, 0]))
    )


@pytest.mark.parametrize("advantage", [group_centred, leave_one_out, scalerl().advantage])
def test_a_rollout_without_an_action_is_nobodys_peer(advantage):
    # Its reward cannot be read: counted as zero, it would give the agreeing group a signal.
    idle = batch(
        [[1, 1], [1, 0], [0, 0], [1, 1], [1, 0], [0, 0]],
        rewards=rows([0.0, 1.0], [1.0, 0.0], [5.0, 5.0], [0.0, 2.0], [0.5, 0.0], [5.0, 5.0]),
        group_ids=torch.tensor([3, 3, 3, 8, 8, 9]),
    )
    others = torch.tensor([0, 1, 3, 4])
    got = advantage(idle)
    assert got[:2].tolist() == [[0.0, 0.0]] * 2
    assert got[[2, 5]].tolist() == [[0.0, 0.0]] * 2
    assert got[others].tolist() == advantage(idle.rows(others)).tolist()
    with pytest.raises(ValueError, match=r"group_ids \[3\] have G=1"):
        require_groups(idle.rows(torch.tensor([0, 2, 3, 4])))


@pytest.mark.parametrize("advantage", [group_centred, leave_one_out, scalerl().advantage])
def test_no_rollouts_have_no_advantages(advantage):
    assert advantage(bandit([1.0, 0.0], [0, 0]).rows(slice(0, 0))).shape == (0, 1)
