"""VAPO and VC-PPO: lambdas by hand, the pull towards what succeeded, and what they refuse."""

import dataclasses

import pytest
import torch

from algorithms.gae import length_adaptive, skip_observation_gae, value_targets
from algorithms.vapo import positive_nll, vapo, vc_ppo
from tests.algorithms.make import T64, batch, rows, terminal
from tests.laws.compositions import COMPOSITIONS, policy_near, random_batch


def long(tokens: int, reward: float):
    action = torch.ones(1, tokens, dtype=torch.bool)
    return batch(action, rewards=terminal(action, [reward]), values=torch.full((1, tokens), 0.25, dtype=T64))


def test_a42_at_twenty_tokens_lambda_is_zero_and_at_two_hundred_it_is_nine_tenths():
    # lambda = 1 - 1 / (.05 20) = 0: one-step errors. Constant values leave only the last, 1 - 1/4.
    got = vapo().advantage(long(20, 1.0))[0]
    assert got.tolist() == [0.0] * 19 + [0.75]
    # lambda = 1 - 1 / (.05 200) = .9.
    got = vapo().advantage(long(200, 1.0))[0]
    torch.testing.assert_close(got, 0.75 * 0.9 ** torch.arange(199, -1, -1, dtype=T64))


def test_a42_a_short_rollout_is_refused_and_vc_ppo_takes_it():
    with pytest.raises(ValueError, match=r"alpha = 0\.05 makes lambda = -0\.0526316 for a rollout of 19"):
        vapo().advantage(long(19, 1.0))
    got = vc_ppo().advantage(long(2, 1.0))
    torch.testing.assert_close(got, rows([0.75 * 0.95, 0.75]))


@pytest.mark.parametrize("make", [vapo, vc_ppo])
def test_policy_and_critic_have_lambdas_of_their_own(make):
    b = COMPOSITIONS["vapo"].draw(0)
    recipe = make().critic
    torch.testing.assert_close(recipe.targets(b), value_targets(b, lam_critic=1.0))
    lam = length_adaptive(0.05) if make is vapo else 0.95
    torch.testing.assert_close(make().advantage(b), skip_observation_gae(b, lam=lam))
    # The policy rests while the critic is pretrained.
    assert [recipe.policy_trains(update) for update in (0, 49, 50)] == [False, False, True]


def test_imitation_by_hand():
    # One of three rollouts succeeded; 0.1 times its log-probs, over all six action tokens.
    action = rows([1, 1, 0], [1, 1, 1], [1, 0, 0], dtype=torch.long).bool()
    b = batch(action, rewards=terminal(action, [1.0, 0.0, -1.0]))
    log_probs = torch.full((3, 3), -2.0, dtype=T64).where(action, float("nan")).requires_grad_()
    penalty = positive_nll(0.1)(log_probs, b)
    torch.testing.assert_close(penalty, 0.2 * rows([1, 1, 0], [0, 0, 0], [0, 0, 0]))
    penalty.sum().backward()
    torch.testing.assert_close(log_probs.grad, -0.1 * rows([1, 1, 0], [0, 0, 0], [0, 0, 0]))


def test_imitation_adds_its_gradient_and_changes_nothing_else():
    b = COMPOSITIONS["vapo"].draw(1)
    advantages, total = vapo().advantage(b), vapo().total(b)
    log_probs = policy_near(b, 0.3)

    def gradient(estimator):
        leaf = log_probs.clone().requires_grad_()
        estimator.loss(leaf, b, advantages=advantages, total=total).backward()
        return leaf.grad

    succeeded = (b.returns > 0)[:, None] & b.action_mask
    assert succeeded.any()
    torch.testing.assert_close(
        gradient(vapo()) - gradient(vapo(imitation=0.0)), -0.1 * succeeded.double() / total
    )


def test_they_differ_by_lambda_clip_and_imitation_alone():
    b = random_batch(2)
    advantages = vc_ppo().advantage(b)
    same = dataclasses.replace(vapo(imitation=0.0), trust=vc_ppo().trust)
    log_probs = policy_near(b, 0.5)
    losses = [e.loss(log_probs, b, advantages=advantages, total=e.total(b)) for e in (same, vc_ppo())]
    assert losses[0] == losses[1]


def test_an_option_out_of_range_is_refused():
    with pytest.raises(ValueError, match="weight must be finite and not negative, got -1"):
        vapo(imitation=-1.0)
    with pytest.raises(ValueError, match="lam must lie"):
        vc_ppo(lam=1.5)
    with pytest.raises(ValueError, match="alpha must be positive"):
        vapo(alpha=0.0)
