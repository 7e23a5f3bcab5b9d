"""A-3PO: decoupled PPO without a forward pass for the proximal policy.

The trainer's version changes with every update, so this is no choice of an estimator but something done to a
batch before each of its updates, after which any decoupled loss reads it::

    near = interpolated(log_probs, batch, trainer_version=v)
    decoupled_ppo().loss(log_probs, near, advantages=advantages, total=total).backward()
"""

from __future__ import annotations

import dataclasses

from jaxtyping import Float
from torch import Tensor

from algorithms.rollout import Batch


def interpolated(log_probs: Float[Tensor, "B T"], batch: Batch, *, trainer_version: int) -> Batch:
    r"""The batch with `old_log_probs` on the line from the engine's log-probs to the current ones.

    .. math:: \log\pi_{prox} = \log\mu + \alpha_t\,(\mathrm{sg}[\log\pi] - \log\mu), \qquad
        \alpha_t = \frac{d_t - 1}{d_t}

    d is the token's lag: the proximal policy stands one update behind the trainer, and versions count
    along the line. A token of the current version, or one behind it, has its engine's log-prob for a
    proximal one: no divisor is ever zero. Lag and alpha are a token's own.

    Args:
        log_probs: log pi of the sampled tokens under the weights being trained; no gradient passes.
        batch: reads `behaviour_log_probs`, `policy_versions`, `action_mask`.
        trainer_version: optimizer updates behind `log_probs`.

    References:
        A-3PO, 2025. https://arxiv.org/abs/2512.06547.
    """
    lag = batch.lag(trainer_version).clamp(min=1).to(log_probs.dtype)
    mask = batch.action_mask
    behaviour = batch.behaviour_log_probs.where(mask, 0.0)
    moved = (log_probs.detach() - behaviour).where(mask, 0.0)
    return dataclasses.replace(batch, old_log_probs=behaviour + (lag - 1) / lag * moved)
