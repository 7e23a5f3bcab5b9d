"""Decoupled PPO: what samples, what anchors the clip and what trains are three policies."""

from __future__ import annotations

from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.correction import Correction, token_ratio
from algorithms.estimator import Estimator
from algorithms.grpo import grpo_corrected


def decoupled_ppo(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    correction: Correction = token_ratio,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    r"""PPO's clip against a recent policy, importance-weighted from that policy back to the engine.

    .. math:: \frac{\pi_{prox}}{\mu} \min\Bigl(r A,\ \mathrm{clip}(r, 1-\ell, 1+h)\, A\Bigr), \qquad
        r = \frac{\pi}{\pi_{prox}}

    The proximal policy is `Batch.old_log_probs`: the trainer's weights when it took the batch, or what
    `a3po.interpolated` puts there. Where mu is pi_prox this is PPO; at pi = pi_prox its gradient is
    :math:`\frac{\pi_{prox}}{\mu} A \nabla\log\pi`. The advantage is a group's, in place of a critic.

    Args:
        eps_low, eps_high: half-widths of the clip on r; AReaL has 0.2 on both sides.
        correction: the weight. `token_ratio` is the published one; AReaL's code drops tokens above five,
            which is `token_band(floor=0.0, ceiling=5.0)`; `token_truncated(5.0)` caps them.
        aggregate: how tokens are averaged.
        kept_only: *choice*, False: tokens that `correction` dropped stay in the divisor.

    Raises:
        ValueError: an option outside its range.

    References:
        Hilton, Cobbe, Schulman, Batch Size-Invariance for Policy Optimization, 2021.
        https://arxiv.org/abs/2110.00641.
        Fu et al., AReaL, 2025. https://arxiv.org/abs/2505.24298.
    """
    return grpo_corrected(
        correction, eps_low=eps_low, eps_high=eps_high, aggregate=aggregate, kept_only=kept_only
    )
