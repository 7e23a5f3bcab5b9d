"""What does an estimator's gradient come to, over everything that a stale policy might have sampled?

Exact: the responses are listed, so mean and variance are sums, not samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor

from algorithms.estimator import Estimator
from algorithms.rollout import Batch
from simulator.exact.world import World


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Moments of the gradient of one rollout, and where the behaviour policy's tokens went."""

    mean: Float64[Tensor, "S V"]
    """Ascent direction: minus the gradient of the loss."""
    variance: float
    r"""Of one rollout, summed over parameters: :math:`E|g|^2 - |E g|^2`."""
    masked: float
    """Share of the tokens, by probability under mu, that lost value and gradient despite an advantage."""
    clipped: float
    """Share that kept its value and lost its gradient."""
    flat: float
    """Share without gradient for whatever reason."""


def listed(world: World, behaviour: World, old: World | None = None) -> Batch:
    """Every response once, as `behaviour` sampled it and as the trainer of `old` took it in.

    `old` is the trainer's policy when it took the batch: `world` itself, unless some updates were made on
    the batch since. Engine and trainer agree, so the proximal log-probs are the behaviour's. So are the
    reference's: where there is no other, the policy to stay near is the one that sampled. A critic, a
    history and a group would all expect the behaviour's mean reward.
    """
    mu = behaviour.log_probs()
    n, length = mu.shape
    rewards = torch.zeros_like(mu)
    rewards[:, -1] = world.rewards
    expected = behaviour.mean_reward()
    return Batch(
        token_ids=world.tokens,
        action_mask=torch.ones(n, length, dtype=torch.bool),
        behaviour_log_probs=mu,
        policy_versions=torch.zeros(n, length, dtype=torch.long),
        rewards=rewards,
        prompt_ids=torch.zeros(n, dtype=torch.long),
        group_ids=torch.zeros(n, dtype=torch.long),
        truncated=torch.zeros(n, dtype=torch.bool),
        temperature=torch.ones(n, dtype=mu.dtype),
        values=expected.expand(n, length),
        bootstrap_values=torch.zeros(n, dtype=mu.dtype),
        baselines=expected.expand(n),
        old_log_probs=(old or world).log_probs(),
        proximal_log_probs=mu,
        reference_log_probs=mu,
    )


def exact_advantages(world: World, behaviour: World) -> Float64[Tensor, "Y T"]:
    r"""Reward minus the behaviour's mean reward, :math:`r(y) - \sum_{y'} \mu(y')\, r(y')`, on every token.

    The same for every estimator, so that they differ by ratio, trust region and aggregate alone. The
    baseline is mu's, not pi's, because rollouts show nothing else: it is the mean of a group without end,
    and what a critic fitted to them expects of the prompt. With ratios a baseline drops out; without
    them it does not, which is a part of their staleness.
    """
    advantage = world.rewards - behaviour.mean_reward()
    return advantage[:, None].expand(-1, world.length_tokens)


def expected_gradient(
    estimator: Estimator,
    world: World,
    behaviour: World,
    *,
    old: World | None = None,
    advantages: Float64[Tensor, "Y T"] | None = None,
    rollouts_a_batch: int = 1,
) -> Expected:
    r"""Mean and variance, under `behaviour`, of the gradient that one rollout gives at `world`'s policy.

    .. math:: E g = \sum_y \mu(y)\, g(y), \qquad g(y) = -\nabla\, \mathrm{loss}(y) / \sum_{y'} \mu(y')\, n(y')

    Each response is a batch of its own: autograd gives its loss's slope by each log-prob, at a total of
    one, and the listed scores carry that to the logits. `n(y)` is what the aggregate counts in it; its
    mean under mu is what a long batch divides by, a rollout. Where nothing counts, the gradient is zero.

    Args:
        old: pi_old; `world` unless given.
        advantages: `exact_advantages` unless given.
        rollouts_a_batch: more than one is faster, and the same for a loss that never looks from one
            rollout to another.
    """
    batch = listed(world, behaviour, old)
    if advantages is None:
        advantages = exact_advantages(world, behaviour)
    mu = behaviour.probabilities()
    pi = world.log_probs()
    estimator = _fixed(estimator, pi, batch, advantages, mu)
    slopes, surrogates, counts = [], [], []
    for first in range(0, len(mu), rollouts_a_batch):
        own = slice(first, first + rollouts_a_batch)
        some = batch.rows(own)
        leaf = pi[own].clone().requires_grad_()
        loss = estimator.loss(leaf, some, advantages=advantages[own], total=torch.tensor(1))
        slope = torch.autograd.grad(loss, leaf, allow_unused=True, materialize_grads=True)[0]
        slopes.append(-slope)
        surrogates.append(estimator.surrogate(pi[own], some, advantages[own]))
        alone = [slice(y, y + 1) for y in range(first, min(first + rollouts_a_batch, len(mu)))]
        counts += [estimator.total(batch.rows(y), pi[y]) for y in alone]
    slope, surrogate = torch.cat(slopes), torch.cat(surrogates)
    divisor = float(mu @ torch.stack(counts).to(mu.dtype))
    each = torch.einsum("yt,ytsv->ysv", slope, world.scores()) / (divisor or 1.0)
    mean = torch.einsum("y,ysv->sv", mu, each)

    def share(tokens: Tensor) -> float:
        return float((mu[:, None] * tokens).sum() / world.length_tokens)

    still, had = slope == 0, advantages != 0
    return Expected(
        mean=mean,
        # About the mean, which cannot cancel: the same as the second moment less its square.
        variance=float(mu @ (each - mean).square().sum((1, 2))),
        masked=share(still & had & (surrogate == 0)),
        clipped=share(still & had & (surrogate != 0)),
        flat=share(still),
    )


_TYPICAL_ROLLOUTS = 4096


def _fixed(
    estimator: Estimator,
    pi: Float64[Tensor, "Y T"],
    batch: Batch,
    advantages: Float64[Tensor, "Y T"],
    mu: Float64[Tensor, " Y"],
) -> Estimator:
    """Bounds as a long batch would set them: one that holds each response about as often as mu says."""
    if estimator.adapt is None:
        return estimator
    edges = (mu.cumsum(0) * _TYPICAL_ROLLOUTS).round().long()
    often = torch.arange(len(mu)).repeat_interleave(edges.diff(prepend=edges.new_zeros(1)))
    return estimator.fixed(pi[often], batch.rows(often), advantages[often])


def drift_nats(world: World, behaviour: World) -> float:
    r"""KL(mu || pi) a token, in nats. k3's mean under mu is the same number, for its ratios average one."""
    log_ratio = world.log_probs() - behaviour.log_probs()
    return float(behaviour.probabilities() @ -log_ratio.sum(-1) / world.length_tokens)
