"""Estimators as sentences: what the named ones are made of, and what the record refuses."""

import dataclasses
import math

import pytest
import torch

from algorithms.advantage import whitened
from algorithms.aggregate import sequence_mean, token_mean
from algorithms.critic import CriticRecipe
from algorithms.estimator import Estimator
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.ratio import per_token
from algorithms.sao import sao, sao_running_mean
from algorithms.trust import double_sided_mask, double_sided_mask_undetached, inside, score
from tests.algorithms.make import T64, bandit, batch, rows

NAN = math.nan


def three_lines(estimator: Estimator, log_probs: torch.Tensor, b) -> torch.Tensor:
    advantages = estimator.advantage(b)
    total = estimator.total(b)
    return estimator.loss(log_probs, b, advantages=advantages, total=total)


def sao_batch():
    """One terminated rollout: actions at 0, 2 and 3, ratios 1, 3 and 10."""
    return batch(
        [[1, 0, 1, 1]],
        rewards=rows([0.0, NAN, 0.0, 1.0]),
        values=rows([0.2, NAN, 0.5, 0.6]),
        behaviour_log_probs=rows([-1.0, NAN, -1.0 - math.log(3.0), -1.0 - math.log(10.0)]),
    )


def test_sao_by_hand():
    # A = [.619753, .411111, .4]; f = 1, 3, 0; log pi = -1: loss = (.619753 + 3 * .411111) / 3.
    log_probs = torch.full((1, 4), -1.0, dtype=T64, requires_grad=True)
    loss = three_lines(sao(), log_probs, sao_batch())
    assert loss.item() == pytest.approx((0.6197531 + 3 * 0.4111111) / 3, abs=1e-6)
    loss.backward()
    wanted = torch.tensor([[-0.6197531 / 3, 0.0, -0.4111111, 0.0]], dtype=T64)
    assert log_probs.grad is not None
    torch.testing.assert_close(log_probs.grad, wanted, atol=1e-6, rtol=0)


def test_saos_silent_choices_are_options():
    log_probs, b = torch.full((1, 4), -1.0, dtype=T64), sao_batch()
    kept = sao(counted=inside)
    loss = kept.loss(log_probs, b, advantages=kept.advantage(b), total=kept.total(b, log_probs))
    assert loss.item() == pytest.approx((0.6197531 + 3 * 0.4111111) / 2, abs=1e-6)
    assert sao(aggregate=sequence_mean).aggregate is sequence_mean
    white = sao(normalise=whitened).advantage(b)
    assert white.sum().item() == pytest.approx(0.0)
    assert white[b.action_mask].std().item() == pytest.approx(1.0)
    # Literal f: gradient r A (1 + log pi), which is zero at log pi = -1.
    x = log_probs.clone().requires_grad_()
    three_lines(sao(trust=double_sided_mask_undetached), x, b).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.zeros_like(x.grad))
    recipe = sao(
        critic=CriticRecipe(updates_per_policy_update=1), gamma=0.9, bootstrap_truncated=False
    ).critic
    assert recipe == CriticRecipe(updates_per_policy_update=1, gamma=0.9, bootstrap_truncated=False)


def test_sao_defaults_are_the_papers():
    recipe = sao().critic
    assert recipe is not None
    assert (recipe.updates_per_policy_update, recipe.learning_rate_ratio, recipe.lambda_critic) == (
        2,
        5.0,
        1.0,
    )
    assert sao().aggregate is token_mean
    assert sao().log_ratio is per_token
    assert sao().regularisers == ()


def test_sao_with_a_running_mean_needs_no_critic():
    b = bandit([1.0, 0.0], [0, 1], baselines=torch.tensor([0.25, 0.25], dtype=T64))
    log_probs = torch.full((2, 1), -1.0, dtype=T64, requires_grad=True)
    estimator = sao_running_mean()
    assert estimator.critic is None
    b = dataclasses.replace(b, behaviour_log_probs=log_probs.detach())
    three_lines(estimator, log_probs, b).backward()
    assert log_probs.grad is not None
    assert log_probs.grad.flatten().tolist() == [-0.375, 0.125]


def test_grpo_measures_from_pi_old_and_its_neighbours_from_the_engine():
    # Two one-token rollouts, A = +-.7071. Against pi_old the ratio is 1, against the engine it is 2.
    b = bandit(
        [1.0, 0.0],
        [0, 0],
        behaviour_log_probs=torch.full((2, 1), -1.0 - math.log(2.0), dtype=T64),
        old_log_probs=torch.full((2, 1), -1.0, dtype=T64),
    )
    a = 0.5 / (math.sqrt(0.5) + 1e-6)
    wanted = {grpo: [-a / 2, a / 2], grpo_behaviour_clip: [0.0, a], grpo_dis: [-a, a]}
    for make, gradient in wanted.items():
        x = torch.full((2, 1), -1.0, dtype=T64, requires_grad=True)
        three_lines(make(), x, b).backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad.flatten(), torch.tensor(gradient, dtype=T64))


def test_an_ablation_is_a_replacement():
    ablation = dataclasses.replace(grpo(), trust=double_sided_mask(0.3, 5.0), log_ratio=per_token)
    b = bandit([1.0, 0.0], [0, 0], behaviour_log_probs=torch.full((2, 1), -1.5, dtype=T64))
    x = torch.full((2, 1), -1.0, dtype=T64)
    torch.testing.assert_close(three_lines(ablation, x, b), three_lines(grpo_dis(), x, b))


def test_a_regulariser_is_minimised_beside_the_surrogate():
    def drift(log_probs, b):
        return 0.5 * (log_probs - b.behaviour_log_probs).square()

    plain = dataclasses.replace(grpo_dis(), trust=score)
    b = bandit([1.0, 0.0], [0, 0], behaviour_log_probs=torch.full((2, 1), -2.0, dtype=T64))
    x = torch.full((2, 1), -1.0, dtype=T64)
    regularised = dataclasses.replace(plain, regularisers=(drift,))
    assert (three_lines(regularised, x, b) - three_lines(plain, x, b)).item() == pytest.approx(0.5)


def test_no_gradient_flows_into_advantages():
    b = bandit([1.0, 0.0], [0, 0])
    advantages = torch.ones(2, 1, dtype=T64, requires_grad=True)
    x = torch.zeros(2, 1, dtype=T64, requires_grad=True)
    grpo_dis().loss(x, b, advantages=advantages, total=torch.tensor(2)).backward()
    assert advantages.grad is None


@pytest.mark.parametrize("shape", [(2, 2), (1, 1), (3, 1)])
def test_a24_another_shape_is_refused_not_broadcast(shape: tuple[int, int]):
    b = bandit([1.0, 0.0], [0, 0])
    right, wrong = torch.zeros(2, 1, dtype=T64), torch.zeros(shape, dtype=T64)
    with pytest.raises((ValueError, TypeError)):
        grpo_dis().loss(wrong, b, advantages=right, total=torch.tensor(2))
    with pytest.raises((ValueError, TypeError)):
        grpo_dis().loss(right, b, advantages=wrong, total=torch.tensor(2))
