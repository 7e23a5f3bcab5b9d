r"""Corrections: how much may a token weigh that another engine, or older weights, sampled?

A correction maps a batch to a detached weight of each token, made of

.. math:: \rho_t = \frac{\pi_{old}(a_t \mid s_t)}{\mu(a_t \mid s_t)}

the trainer's weights when it took the batch over the engine that sampled. It multiplies the surrogate of a
loss whose own ratio is :math:`\pi / \pi_{old}` (`ratio.per_token_old`), so that the two make
:math:`\pi / \mu`. It reads no log-prob under training: the weights stay as they are through every update on
the batch. All compare in log space, saturate with `bounded_exp` and are exactly zero off the action tokens.

Corrections that drop tokens or rollouts live in `rejection`: a weight of zero is a token dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from algorithms.piece import piece
from algorithms.ratio import LogRatio, bounded_exp, per_sequence_product, per_token
from algorithms.rollout import Batch

Correction: TypeAlias = Callable[[Batch], Float[Tensor, "B T"]]
"""Batch -> detached weight of each token, never negative; zero drops the token."""


def log_mismatch(level: LogRatio, batch: Batch) -> Float[Tensor, "B T"]:
    r"""Log-ratio of pi_old over mu at a level: :math:`\log\rho_t`, its mean or its sum over the rollout.

    Args:
        level: `per_token`, `per_sequence` or `per_sequence_product`.
        batch: reads `old_log_probs` and `behaviour_log_probs`.

    Returns:
        Nats, without gradient, zero off the action tokens.

    Raises:
        ValueError: `old_log_probs` is absent.
    """
    if batch.old_log_probs is None:
        raise ValueError(
            "a correction needs old_log_probs, got None: score the batch before its first update"
        )
    return level(batch.old_log_probs.detach(), batch)


def unweighted(batch: Batch) -> Float[Tensor, "B T"]:
    """Every action token weighs one: no correction, and the weight of what a rejection keeps."""
    return batch.action_mask.to(batch.behaviour_log_probs.dtype)


def token_ratio(batch: Batch) -> Float[Tensor, "B T"]:
    r"""Each token's own ratio, without bound: :math:`\rho_t`.

    Raises:
        ValueError: `old_log_probs` is absent; so does every function here that reads it.
    """
    return _ratio(per_token, batch)


def sequence_ratio(batch: Batch) -> Float[Tensor, "B T"]:
    r"""The rollout's ratio at each of its tokens, without bound: :math:`\prod_t \rho_t`."""
    return _ratio(per_sequence_product, batch)


@piece
def token_truncated(cap: float) -> Correction:
    r"""Truncated importance sampling by token (token-TIS): :math:`\min(\rho_t, C)`.

    Args:
        cap: C, positive: 2 in most trainers, 1.2 to 5 in some. Infinity leaves `token_ratio`; below one
            even an on-policy token is scaled.

    Raises:
        ValueError: `cap` is not positive.

    References:
        Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025.
        https://fengyao.notion.site/off-policy-rl.
        Espeholt et al., IMPALA, 2018. https://arxiv.org/abs/1802.01561.
    """
    return _truncated(token_ratio, cap)


@piece
def sequence_truncated(cap: float) -> Correction:
    r"""Truncated importance sampling by rollout (seq-TIS): :math:`\min\bigl(\prod_t \rho_t, C\bigr)`.

    Truncated after the product, so a long rollout is either near C or near zero.

    Args:
        cap: C, positive; 2 in verl.

    Raises:
        ValueError: `cap` is not positive.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    return _truncated(sequence_ratio, cap)


@piece
def both(*corrections: Correction) -> Correction:
    """Every correction at once: weights multiply, and a token lives that none of them drops.

    Raises:
        ValueError: no correction at all.
    """
    if not corrections:
        raise ValueError("both needs at least one correction, got none")

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        product = corrections[0](batch)
        for other in corrections[1:]:
            product = product * other(batch)
        return product

    return correct


def _ratio(level: LogRatio, batch: Batch) -> Float[Tensor, "B T"]:
    return bounded_exp(log_mismatch(level, batch)).where(batch.action_mask, 0.0)


def _truncated(weight: Correction, cap: float) -> Correction:
    if not cap > 0:
        raise ValueError(f"cap must be positive, got {cap}")
    return lambda batch: weight(batch).clamp(max=cap)
