"""A world small enough to list: vocabulary 3, two tokens, the second conditioned on the first.

The expected gradient of an estimator, by listing all nine responses, is compared with the exact gradient
of the expected reward, and with the same expectation in plain Python, without tensors or autograd.
"""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from algorithms.aggregate import constant, sequence_mean
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_sequence_product, per_token
from algorithms.trust import TrustRegion, double_sided_mask, dual_clip, importance_weighted, ppo_clip, score
from tests.algorithms.make import T64, batch

VOCABULARY = 3
RESPONSES = list(itertools.product(range(VOCABULARY), repeat=2))
BASELINE = 0.4


def tables(seed: int) -> Tensor:
    """Logits [4, 3]: row 0 for the first token, row 1 + a for the second after first token a."""
    return torch.randn(1 + VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed), dtype=T64)


def rewards(seed: int) -> Tensor:
    return torch.rand(len(RESPONSES), generator=torch.Generator().manual_seed(seed), dtype=T64)


def log_probs(theta: Tensor) -> Tensor:
    """[9, 2] log-probs of every response."""
    log_pi = theta.log_softmax(-1)
    return torch.stack([torch.stack([log_pi[0, a], log_pi[1 + a, b]]) for a, b in RESPONSES])


def exact_gradient(theta: Tensor, reward: Tensor, length: int = 2) -> Tensor:
    leaf = theta.clone().requires_grad_()
    expected = (log_probs(leaf)[:, :length].sum(-1).exp() * reward).sum()
    return torch.autograd.grad(expected, leaf)[0]


def expected_estimate(
    trust: TrustRegion, log_ratio: LogRatio, theta: Tensor, stale: Tensor, reward: Tensor
) -> Tensor:
    """Gradient of E_mu[surrogate], ours, over all responses; ascent direction."""
    mu = log_probs(stale)
    leaf = theta.clone().requires_grad_()
    everything = batch(torch.ones(9, 2, dtype=torch.bool), behaviour_log_probs=mu)
    # One response a call, weighted by its probability: the expectation over single rollouts.
    aggregate = sequence_mean if log_ratio is per_sequence_product else constant(1)
    estimator = Estimator(
        advantage=lambda b: b.rewards, log_ratio=log_ratio, trust=trust, aggregate=aggregate
    )
    pi = log_probs(leaf)
    total = torch.tensor(0.0, dtype=T64)
    for i in range(9):
        one = everything.rows(slice(i, i + 1))
        advantage = (reward[i] - BASELINE).expand(1, 2)
        loss = estimator.loss(pi[i : i + 1], one, advantages=advantage, total=torch.tensor(1))
        total = total - mu[i].sum().exp() * loss
    return torch.autograd.grad(total, leaf)[0]


def by_hand(weight: Callable[[float, float], float], theta: Tensor, stale: Tensor, reward: Tensor) -> Tensor:
    """The same expectation, sum_y mu(y) sum_t weight(r_t, A) A d log pi, in plain floats."""

    def softmax(row: list[float]) -> list[float]:
        z = [math.exp(x) for x in row]
        return [x / sum(z) for x in z]

    pi = [softmax(row) for row in theta.tolist()]
    mu = [softmax(row) for row in stale.tolist()]
    gradient = [[0.0] * VOCABULARY for _ in pi]
    for (a, b), r in zip(RESPONSES, reward.tolist(), strict=True):
        probability = mu[0][a] * mu[1 + a][b]
        for state, action in ((0, a), (1 + a, b)):
            advantage = r - BASELINE
            w = weight(pi[state][action] / mu[state][action], advantage)
            for other in range(VOCABULARY):
                score_function = (other == action) - pi[state][other]
                gradient[state][other] += probability * w * advantage * score_function
    return torch.tensor(gradient, dtype=T64)


@pytest.mark.parametrize("seed", range(5))
def test_the_sequence_product_is_exact_for_any_stale_policy(seed: int):
    theta, stale, reward = tables(seed), tables(seed + 100), rewards(seed)
    got = expected_estimate(importance_weighted, per_sequence_product, theta, stale, reward)
    torch.testing.assert_close(got, exact_gradient(theta, reward), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "trust", [importance_weighted, score, ppo_clip(0.2, 0.28), double_sided_mask(0.3, 5.0)]
)
def test_on_policy_every_region_is_exact(trust: TrustRegion):
    theta, reward = tables(1), rewards(1)
    got = expected_estimate(trust, per_token, theta, theta, reward)
    torch.testing.assert_close(got, exact_gradient(theta, reward), rtol=1e-12, atol=1e-14)


def test_a_token_ratio_is_exact_for_one_token():
    theta, stale = tables(2), tables(102)
    reward = torch.tensor([1.0, 0.0, 0.3], dtype=T64)
    mu = stale[0].log_softmax(-1)
    leaf = theta[0].clone().requires_grad_()
    pi = leaf.log_softmax(-1)
    terms = importance_weighted((pi - mu)[:, None], (reward - BASELINE)[:, None], pi[:, None])
    got = torch.autograd.grad((mu.exp()[:, None] * terms).sum(), leaf)[0]
    exact = torch.autograd.grad((leaf.log_softmax(-1).exp() * reward).sum(), leaf)[0]
    torch.testing.assert_close(got, exact, rtol=1e-12, atol=1e-14)


def clipped(low: float, high: float, cap: float = math.inf) -> Callable[[float, float], float]:
    """PPO's weight on A grad log pi."""

    def weight(r: float, a: float) -> float:
        bound = (a > 0 and r > 1 + high) or (a < 0 and (r < 1 - low or r > cap))
        return 0.0 if bound else r

    return weight


BIASED: dict[str, tuple[TrustRegion, Callable[[float, float], float]]] = {
    "token ratio": (importance_weighted, lambda r, a: r),  # noqa: ARG005
    "no correction": (score, lambda r, a: 1.0),  # noqa: ARG005
    "ppo clip": (ppo_clip(0.2, 0.28), clipped(0.2, 0.28)),
    "dual clip": (dual_clip(0.2, 0.28, cap=3.0), clipped(0.2, 0.28, 3.0)),
    "dis": (double_sided_mask(0.3, 5.0), lambda r, a: r if 0.7 < r < 6.0 else 0.0),  # noqa: ARG005
    "narrow dis": (double_sided_mask(0.2, 0.28), lambda r, a: r if 0.8 < r < 1.28 else 0.0),  # noqa: ARG005
}


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("seed", range(3))
def test_off_policy_bias_is_the_one_that_plain_arithmetic_finds(name: str, seed: int):
    trust, weight = BIASED[name]
    theta, stale, reward = tables(seed), tables(seed + 100), rewards(seed)
    exact = exact_gradient(theta, reward)
    bias = expected_estimate(trust, per_token, theta, stale, reward) - exact
    torch.testing.assert_close(bias, by_hand(weight, theta, stale, reward) - exact, rtol=1e-10, atol=1e-13)
    assert bias.norm() > 1e-3  # two tokens off-policy: the prefix keeps the behaviour distribution


def test_a_token_ratio_errs_in_the_prefix_only():
    """It reweights the last state's action but not how often that state is reached."""
    theta, reward = tables(3), rewards(3)
    stale = theta.clone()
    stale[1:] = tables(103)[1:]  # stale only after the first token: its distribution is right
    got = expected_estimate(importance_weighted, per_token, theta, stale, reward)
    exact = exact_gradient(theta, reward)
    torch.testing.assert_close(got[1:], exact[1:], rtol=1e-12, atol=1e-14)
    assert (got[0] - exact[0]).norm() > 1e-3  # the first token's return is that of a stale future
