"""Every KL and entropy term against autograd of the exact quantity, all responses of a small world listed.

Three policies: the one that samples, the one being trained, the one pulled toward. `term` is a regulariser;
its expected gradient is the sum over responses of probability times gradient, no sample anywhere.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.aggregate import constant
from algorithms.entropy import entropy_bonus, token_entropy
from algorithms.estimator import Estimator, Regulariser
from algorithms.kl import k1, k2, k3, kl_penalty, reverse_kl, with_kl_in_reward
from algorithms.penalty import squared_log_ratio
from algorithms.ratio import LogRatio, per_sequence_product, per_token, per_token_old, per_token_reference
from algorithms.reinforce_pp import rewards_to_come
from algorithms.rollout import Batch
from algorithms.trust import importance_weighted
from simulator.exact.gradient import listed
from simulator.exact.world import World, random_world

seeds = pytest.mark.parametrize("seed", range(3))
EXACT = {"rtol": 1e-10, "atol": 1e-13}


def worlds(seed: int) -> tuple[World, World, World]:
    """pi, mu and the reference: independent tables of logits, so nothing is near anything."""
    return tuple(random_world(np.random.default_rng((seed, policy))) for policy in range(3))  # type: ignore


def record(pi: World, mu: World, reference: World) -> Batch:
    return dataclasses.replace(listed(pi, mu), reference_log_probs=reference.log_probs())


def expected(term: Regulariser, pi: World, mu: World, reference: World) -> Tensor:
    """Gradient by the logits of the expectation over mu of the term, summed over a response's tokens."""
    leaf = pi.logits.clone().requires_grad_()
    terms = term(pi.at(leaf).log_probs(), record(pi, mu, reference))
    return torch.autograd.grad(mu.probabilities() @ terms.sum(-1), leaf)[0]


def at_prefixes_of(sampler: World, divergence: Callable[[Tensor], Tensor], pi: World) -> Tensor:
    """Gradient of the sum over tokens of a divergence [S] at each prefix, the prefixes being given."""
    leaf = pi.logits.clone().requires_grad_()
    total = sampler.probabilities() @ divergence(leaf.log_softmax(-1))[pi.states].sum(-1)
    return torch.autograd.grad(total, leaf)[0]


def reverse(reference: World) -> Callable[[Tensor], Tensor]:
    q = reference.logits.log_softmax(-1)
    return lambda p: (p.exp() * (p - q)).sum(-1)


def forward(reference: World) -> Callable[[Tensor], Tensor]:
    q = reference.logits.log_softmax(-1)
    return lambda p: (q.exp() * (q - p)).sum(-1)


def minus_entropy(log_pi: Tensor) -> Tensor:
    return (log_pi.exp() * log_pi).sum(-1)


def whole_response(pi: World, reference: World) -> Tensor:
    """Gradient of KL(pi || reference) over responses: what early tokens do to later prefixes included."""
    leaf = pi.logits.clone().requires_grad_()
    log_pi = pi.at(leaf).log_probs().sum(-1)
    divergence = (log_pi.exp() * (log_pi - reference.log_probs().sum(-1))).sum()
    return torch.autograd.grad(divergence, leaf)[0]


@seeds
def test_k1_and_k3_are_the_divergence_as_values_and_k2_is_not(seed: int):
    pi, _, reference = worlds(seed)
    apart = pi.log_probs() - reference.log_probs()
    exact = pi.probabilities() @ apart.sum(-1)
    for estimate in (k1, k3):
        torch.testing.assert_close(pi.probabilities() @ estimate(apart).sum(-1), exact, **EXACT)
    assert abs(pi.probabilities() @ k2(apart).sum(-1) - exact) > 0.01
    assert (k3(apart) >= 0).all()
    assert (k1(apart) < 0).any()


@seeds
def test_derivatives_on_policy(seed: int):
    """k1 nothing, k2 the reverse divergence, k3 the forward one: autograd of the exact ones agrees."""
    pi, _, reference = worlds(seed)
    backward = at_prefixes_of(pi, reverse(reference), pi)
    ahead = at_prefixes_of(pi, forward(reference), pi)
    torch.testing.assert_close(
        expected(kl_penalty(1.0, k1), pi, pi, reference), torch.zeros_like(ahead), **EXACT
    )
    torch.testing.assert_close(expected(kl_penalty(1.0, k2), pi, pi, reference), backward, **EXACT)
    torch.testing.assert_close(expected(kl_penalty(1.0, k3), pi, pi, reference), ahead, **EXACT)
    torch.testing.assert_close(expected(reverse_kl(1.0), pi, pi, reference), backward, **EXACT)
    assert (backward - ahead).norm() > 0.05 * backward.norm()


@seeds
def test_off_policy_derivatives_need_the_ratio(seed: int):
    pi, mu, reference = worlds(seed)
    backward = at_prefixes_of(mu, reverse(reference), pi)
    ahead = at_prefixes_of(mu, forward(reference), pi)
    torch.testing.assert_close(expected(reverse_kl(1.0), pi, mu, reference), backward, **EXACT)
    weighted = {k: kl_penalty(1.0, k, importance=per_token) for k in (k1, k2, k3)}
    torch.testing.assert_close(expected(weighted[k1], pi, mu, reference), torch.zeros_like(ahead), **EXACT)
    torch.testing.assert_close(expected(weighted[k2], pi, mu, reference), backward, **EXACT)
    torch.testing.assert_close(expected(weighted[k3], pi, mu, reference), ahead, **EXACT)
    for estimate, wanted in ((k2, backward), (k3, ahead)):
        bare = expected(kl_penalty(1.0, estimate), pi, mu, reference)
        assert (bare - wanted).norm() > 0.05 * wanted.norm()


@seeds
def test_k1_off_policy_pushes_away_from_the_sampler(seed: int):
    """Unweighted, its gradient is minus that of KL(mu || pi), whatever the reference."""
    pi, mu, reference = worlds(seed)
    away = -at_prefixes_of(mu, forward(mu), pi)
    torch.testing.assert_close(expected(kl_penalty(1.0, k1), pi, mu, reference), away, **EXACT)


@seeds
def test_the_whole_responses_ratio_moves_the_prefixes_to_pi(seed: int):
    pi, mu, reference = worlds(seed)
    term = reverse_kl(1.0, importance=per_sequence_product)
    wanted = at_prefixes_of(pi, reverse(reference), pi)
    torch.testing.assert_close(expected(term, pi, mu, reference), wanted, **EXACT)


@seeds
@pytest.mark.parametrize("against", [per_token, per_token_old])
def test_any_policy_can_be_pulled_toward(seed: int, against: LogRatio):
    pi, mu, other = worlds(seed)
    target = mu if against is per_token else other
    leaf = pi.logits.clone().requires_grad_()
    batch = dataclasses.replace(listed(pi, mu), old_log_probs=other.log_probs())
    terms = reverse_kl(1.0, against=against)(pi.at(leaf).log_probs(), batch)
    (got,) = torch.autograd.grad(mu.probabilities() @ terms.sum(-1), leaf)
    torch.testing.assert_close(got, at_prefixes_of(mu, reverse(target), pi), **EXACT)


@seeds
def test_token_for_token_it_is_k3_differentiated_through_the_ratio(seed: int):
    pi, mu, reference = worlds(seed)
    batch, new = record(pi, mu, reference), pi.log_probs().requires_grad_()
    through = (new - mu.log_probs()).exp() * k3(new - reference.log_probs())
    score = reverse_kl(1.0)(new, batch)
    torch.testing.assert_close(score, through, **EXACT)
    torch.testing.assert_close(
        torch.autograd.grad(score.sum(), new)[0], torch.autograd.grad(through.sum(), new)[0], **EXACT
    )
    # And k2 under the detached ratio, with another value.
    same = kl_penalty(1.0, k2, importance=per_token)(new, batch)
    torch.testing.assert_close(
        torch.autograd.grad(same.sum(), new)[0],
        torch.autograd.grad(reverse_kl(1.0)(new, batch).sum(), new)[0],
        **EXACT,
    )


@seeds
def test_a_cap_is_the_enumerated_bias(seed: int):
    pi, mu, reference = worlds(seed)
    apart = pi.log_probs() - reference.log_probs()
    weight = (pi.log_probs() - mu.log_probs()).exp().clamp(max=1.5)
    by_hand = torch.einsum("y,yt,ytsv->sv", mu.probabilities(), weight * apart, pi.scores())
    torch.testing.assert_close(expected(reverse_kl(1.0, cap=1.5), pi, mu, reference), by_hand, **EXACT)
    assert (by_hand - at_prefixes_of(mu, reverse(reference), pi)).norm() > 1e-3


def policy_gradient(batch: Batch, pi: World, mu: World, log_ratio: LogRatio) -> Tensor:
    """Expected ascent direction of importance-weighted rewards to come, one response a call."""
    estimator = Estimator(
        advantage=rewards_to_come, log_ratio=log_ratio, trust=importance_weighted, aggregate=constant(1)
    )
    leaf = pi.logits.clone().requires_grad_()
    new, advantages = pi.at(leaf).log_probs(), estimator.advantage(batch)
    if log_ratio is per_sequence_product:
        # The product's gradient at every token is the row's sum: the return belongs to the row once.
        advantages = batch.returns[:, None].expand_as(advantages) / batch.action_tokens[:, None]
    one = torch.tensor(1)
    losses = [
        estimator.loss(
            new[y : y + 1], batch.rows(slice(y, y + 1)), advantages=advantages[y : y + 1], total=one
        )
        for y in range(len(new))
    ]
    return -torch.autograd.grad(mu.probabilities() @ torch.stack(losses), leaf)[0]


@seeds
def test_kl_in_the_reward_is_the_divergence_of_whole_responses(seed: int):
    pi, mu, reference = worlds(seed)
    for sampler, log_ratio in ((pi, per_token), (mu, per_sequence_product)):
        priced = with_kl_in_reward(record(pi, sampler, reference), 0.7)
        got = policy_gradient(priced, pi, sampler, log_ratio)
        torch.testing.assert_close(got, pi.gradient() - 0.7 * whole_response(pi, reference), **EXACT)
    # The loss terms see each prefix alone, and miss what the first token does to the second's.
    assert (whole_response(pi, reference) - at_prefixes_of(pi, reverse(reference), pi)).norm() > 1e-3


@seeds
def test_entropy_bonus_follows_the_exact_entropy(seed: int):
    pi, mu, reference = worlds(seed)
    for sampler in (pi, mu):
        wanted = at_prefixes_of(sampler, minus_entropy, pi)
        torch.testing.assert_close(expected(entropy_bonus(1.0), pi, sampler, reference), wanted, **EXACT)
    value = entropy_bonus(1.0)(pi.log_probs(), record(pi, mu, reference))
    exact = minus_entropy(pi.logits.log_softmax(-1))[pi.states]
    torch.testing.assert_close(
        mu.probabilities() @ value.sum(-1), mu.probabilities() @ exact.sum(-1), **EXACT
    )
    whole = entropy_bonus(1.0, importance=per_sequence_product)
    torch.testing.assert_close(
        expected(whole, pi, mu, reference), at_prefixes_of(pi, minus_entropy, pi), **EXACT
    )


@seeds
def test_token_entropy_has_the_exact_gradient(seed: int):
    pi, mu, reference = worlds(seed)
    leaf = pi.logits.clone().requires_grad_()
    entropy = token_entropy(leaf[pi.states], record(pi, mu, reference), chunk_tokens=4)
    (got,) = torch.autograd.grad(mu.probabilities() @ entropy.sum(-1), leaf)
    torch.testing.assert_close(got, -at_prefixes_of(mu, minus_entropy, pi), **EXACT)


def test_k2_is_the_squared_log_ratio_that_other_losses_pull_with():
    pi, mu, reference = worlds(0)
    batch = record(pi, mu, reference)
    ours = kl_penalty(0.3, k2)(pi.log_probs(), batch)
    torch.testing.assert_close(ours, squared_log_ratio(0.15, per_token_reference)(pi.log_probs(), batch))
