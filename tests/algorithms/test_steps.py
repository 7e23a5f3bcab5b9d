"""Credit by step: hand arithmetic, a slow twin over random masks, and where it is credit by token."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.critic import value_loss
from algorithms.gae import length_adaptive, skip_observation_gae, value_targets
from algorithms.sao import sao
from algorithms.sao_ablations import sao_dis_only, sao_step_last, sao_step_mean
from algorithms.steps import last_value, mean_value, step_ends, step_gae, step_of, step_sums, step_targets
from tests.algorithms.make import T64, batch, rows, terminal
from tests.laws.compositions import policy_near, random_batch

NAN = math.nan


def one(mask: str, values: list[float], reward: float, **fields):
    action = torch.tensor([[c == "1" for c in mask]])
    return batch(action, rewards=terminal(action, [reward]), values=rows(values), **fields)


# Two steps: two tokens worth .25 and .75, then an observation, then one worth .5; reward 1 at the end.
TWO_STEPS = one("11010", [0.25, 0.75, NAN, 0.5, NAN], 1.0)


def test_steps_are_runs_of_actions():
    mask = torch.tensor([[1, 1, 0, 1, 0, 0, 1, 1], [0, 1, 0, 0, 1, 1, 0, 0], [0] * 8]).bool()
    assert step_of(mask).tolist() == [[0, 0, 0, 1, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1, 0, 0], [0] * 8]
    ends = [[0, 1, 0, 1, 0, 0, 0, 1], [0, 1, 0, 0, 0, 1, 0, 0], [0] * 8]
    assert step_ends(mask).int().tolist() == ends
    assert step_sums(torch.ones(3, 8), mask).tolist() == [[2, 1, 2, 0, 0, 0, 0, 0], [1, 2] + [0] * 6, [0] * 8]


def test_values_of_steps_by_hand():
    values = torch.tensor([[0.25, 0.75, NAN, 0.5, NAN]], dtype=T64)
    mask = TWO_STEPS.action_mask
    assert mean_value(values, mask).tolist() == [[0.5, 0.5, 0.0, 0.0, 0.0]]
    assert last_value(values, mask).tolist() == [[0.75, 0.5, 0.0, 0.0, 0.0]]


def test_advantages_by_hand():
    # alpha 1.5, two steps: lambda = 2/3. Last step: 1 - .5 = .5.
    # First, by the mean .5: .5 - .5 + 2/3 .5 = 1/3. By the last token .75: .5 - .75 + 1/3 = 1/12.
    a = 1 / 3
    torch.testing.assert_close(sao_step_mean().advantage(TWO_STEPS), rows([a, a, 0.0, 0.5, 0.0]))
    a = 1 / 12
    torch.testing.assert_close(sao_step_last().advantage(TWO_STEPS), rows([a, a, 0.0, 0.5, 0.0]))


def test_targets_by_hand():
    b = one("11010", [0.25, 0.75, NAN, 0.5, NAN], 1.0)
    for estimator in (sao_step_mean(), sao_step_last()):
        assert estimator.critic is not None
        # lambda_critic = 1: the return still to come.
        torch.testing.assert_close(estimator.critic.targets(b), rows([1.0, 1.0, 0.0, 1.0, 0.0]))
    recipe = dataclasses.replace(sao_step_last(gamma=0.5).critic, lambda_critic=0.0)  # type: ignore[type-var]
    # One step ahead: gamma V = .5 .5; then the reward.
    torch.testing.assert_close(recipe.targets(b), rows([0.25, 0.25, 0.0, 1.0, 0.0]))


def test_the_critic_of_last_tokens_learns_at_last_tokens_only():
    recipe = sao_step_last().critic
    assert recipe is not None
    values = TWO_STEPS.values.clone().requires_grad_()
    fitted = recipe.fitted(TWO_STEPS)
    value_loss(values, recipe.targets(TWO_STEPS), fitted, fitted.sum()).backward()
    # 2 (V - 1) / 2 at each of two tokens.
    torch.testing.assert_close(values.grad, rows([0.0, -0.25, 0.0, -0.5, 0.0]))
    assert torch.equal(sao_step_mean().critic.fitted(TWO_STEPS), TWO_STEPS.action_mask)


def test_truncation_bootstraps_after_the_last_step():
    cut = {"truncated": torch.tensor([True]), "bootstrap_values": torch.tensor([2.0], dtype=T64)}
    b = one("110", [0.5, 1.5, NAN], 0.0, **cut)
    torch.testing.assert_close(step_gae(b, value=mean_value), rows([1.0, 1.0, 0.0]))
    torch.testing.assert_close(step_gae(b, value=last_value), rows([0.5, 0.5, 0.0]))


def slow_twin(mask, rewards, values, gamma, lam, *, last: bool):
    """Steps as lists of positions, then the recursion in plain floats."""
    steps: list[list[int]] = []
    for t, chosen in enumerate(mask):
        if chosen and t and mask[t - 1]:
            steps[-1].append(t)
        elif chosen:
            steps.append([t])
    advantages, targets = [0.0] * len(mask), [0.0] * len(mask)
    next_value = advantage = 0.0
    for step in reversed(steps):
        value = values[step[-1]] if last else sum(values[t] for t in step) / len(step)
        advantage = sum(rewards[t] for t in step) + gamma * next_value - value + gamma * lam * advantage
        for t in step:
            advantages[t], targets[t] = advantage, advantage + value
        next_value = value
    return advantages, targets


@given(st.data())
def test_equals_the_plain_recursion(data):
    width = data.draw(st.integers(1, 9))
    mask = data.draw(st.lists(st.booleans(), min_size=width, max_size=width))
    rewards, values = (
        data.draw(st.lists(st.floats(-10, 10), min_size=width, max_size=width)) for _ in range(2)
    )
    gamma, lam = data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))
    b = batch(torch.tensor([mask]), rewards=rows(rewards), values=rows(values))
    for value, last in ((mean_value, False), (last_value, True)):
        advantages, targets = slow_twin(mask, rewards, values, gamma, lam, last=last)
        torch.testing.assert_close(step_gae(b, value=value, gamma=gamma, lam=lam), rows(advantages))
        recipe = dataclasses.replace(sao_step_mean().critic, gamma=gamma, lambda_critic=lam)
        torch.testing.assert_close(step_targets(value)(recipe, b), rows(targets))


@pytest.mark.parametrize("value", [mean_value, last_value])
def test_steps_of_one_token_are_tokens(value):
    b = random_batch(2)
    mask = b.action_mask & (torch.arange(6) % 2 == 0)
    b = dataclasses.replace(b, action_mask=mask)
    rule = length_adaptive(1.5)
    torch.testing.assert_close(step_gae(b, value=value, lam=rule), skip_observation_gae(b, lam=rule))


def test_at_gamma_and_lambda_one_a_step_gets_its_return_less_its_value():
    b = random_batch(3)
    recipe = sao_step_last().critic
    first_of_step = b.action_mask & ~torch.nn.functional.pad(b.action_mask[:, :-1], (1, 0))
    # At the first token of a step, the return still to come is the step's.
    torch.testing.assert_close(recipe.targets(b)[first_of_step], value_targets(b)[first_of_step])


def test_dis_only_is_sao_with_a_plain_critic():
    b, (ours, whole) = random_batch(5), (sao_dis_only(), sao())
    log_probs = policy_near(b, 0.5)
    assert torch.equal(ours.advantage(b), whole.advantage(b))
    a = whole.advantage(b)
    assert torch.equal(ours.surrogate(log_probs, b, a), whole.surrogate(log_probs, b, a))
    assert ours.critic is not None
    assert ours.critic.updates_per_policy_update == 1
    assert not ours.critic.frozen("layers.0.self_attn.q_proj.weight")


def test_values_are_needed():
    with pytest.raises(ValueError, match="step advantages need values"):
        step_gae(batch([[1]]), value=mean_value)
