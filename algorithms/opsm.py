"""Off-policy sequence masking: drop a bad rollout that the policy has already left behind."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.ratio import per_token
from algorithms.trust import TrustRegion, ppo_clip


@piece
def off_policy_sequence_mask(trust: TrustRegion, *, delta: float) -> TrustRegion:
    r"""A token trust region, and zero for whole rollouts of negative advantage that moved too far.

    .. math:: \text{keep if}\quad A \ge 0 \quad\text{or}\quad \frac{1}{L}\sum_t \log\frac{\mu}{\pi} \le \delta

    The mean runs over tokens of negative advantage: over all action tokens, provided that the advantage is
    the same along a rollout. Dropped tokens stay in the divisor, and in the group's baseline.

    Args:
        trust: what kept tokens contribute; it must read the log-ratio of single tokens.
        delta: largest mean drop of the log-prob, in nats, not negative; infinity keeps every rollout.

    Raises:
        ValueError: `delta` is negative.

    References:
        DeepSeek-V3.2, 2025. https://arxiv.org/abs/2512.02556.
    """
    if not delta >= 0:
        raise ValueError(f"delta must not be negative, got {delta}: a mean drop in nats")

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        bad = advantages < 0
        dropped_nats = -log_ratio.detach().where(bad, 0.0).sum(-1, keepdim=True)
        far = dropped_nats > delta * bad.sum(-1, keepdim=True) if delta < float("inf") else bad & ~bad
        return trust(log_ratio, advantages, log_probs).where(~(bad & far), 0.0)

    return surrogate


def opsm(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    delta: float = 1e-4,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = sequence_mean,
) -> Estimator:
    """GRPO with off-policy sequence masking: PPO's clip on tokens, and bad stale rollouts dropped whole.

    Args:
        eps_low, eps_high: half-widths of the clip, against the engine that sampled.
        delta: *choice*, 1e-4 as in slime.
        advantage: *choice*, GRPO's; it must be the same along a rollout.
        aggregate: *choice*, every rollout weighing the same.

    Raises:
        ValueError: an option outside its range.

    References:
        DeepSeek-V3.2, 2025. https://arxiv.org/abs/2512.02556.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=per_token,
        trust=off_policy_sequence_mask(ppo_clip(eps_low, eps_high), delta=delta),
        aggregate=aggregate,
    )
