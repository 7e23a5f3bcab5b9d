"""Ratios: how far has the policy moved since each token was sampled?

Every ratio stays in log space, in nats, and is exactly zero off the action tokens, so that no later
`exp` can meet padding. A value is whatever the weights say, however extreme: diagnostics want it so.
Only `bounded_exp` turns it into a number, and every trust region goes through it. Half-precision
log-probs are widened before they are subtracted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from algorithms.precision import at_least_single
from algorithms.rollout import Batch

LogRatio: TypeAlias = Callable[[Float[Tensor, "B T"], Batch], Float[Tensor, "B T"]]
"""(log pi of the sampled tokens [B, T], batch) -> log-ratio [B, T], all in nats."""

CLAMP_NATS = 20.0
"""Ratios saturate at exp(+-20), about 4.9e8 and 2.1e-9: verl's bound."""


def bounded_exp(log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""The ratio, saturating at :math:`e^{\pm 20}` so that single precision never overflows.

    A token beyond the bound keeps a finite value and *loses its gradient*, as in verl. The road not
    taken is to saturate the gradient too: one such token would outweigh half a billion others. It is
    not silent: `diagnostics.gradient_flow` counts it as clipped.

    References:
        verl, `compute_policy_loss_vanilla`.
        https://github.com/volcengine/verl/blob/main/verl/trainer/ppo/core_algos.py.
    """
    return log_ratio.clamp(-CLAMP_NATS, CLAMP_NATS).exp_()


def per_token(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Each token against the engine that sampled it.

    .. math:: \log \pi(a_t \mid s_t) - \log \mu(a_t \mid s_t)

    Off-policy, its gradient estimate is biased for responses longer than one token: the prefix keeps
    the behaviour distribution. `tests/oracles/test_enumeration.py` measures by how much.

    Raises:
        ValueError: `log_probs` has another shape than the batch.
    """
    return _difference(log_probs, batch.behaviour_log_probs, batch)


def per_token_old(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Each token against the trainer's own weights when it took the batch.

    .. math:: \log \pi(a_t \mid s_t) - \log \pi_{old}(a_t \mid s_t)

    The "latest pi_old" of GRPO as usually run: staleness never enters, because before the batch's
    first update the ratio is one, whatever policy sampled the token.

    Raises:
        ValueError: `old_log_probs` is absent, or `log_probs` has another shape than the batch.
    """
    if batch.old_log_probs is None:
        raise ValueError(
            "per_token_old needs old_log_probs, got None: score the batch before its first update"
        )
    return _difference(log_probs, batch.old_log_probs, batch)


def per_token_proximal(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Each token against the trainer's own weights at the version that sampled it: staleness alone.

    .. math:: \log \pi(a_t \mid s_t) - \log \pi_{prox}(a_t \mid s_t)

    Engine mismatch never enters: both sides come from the trainer's numerics. With a learning rate of
    zero it is exactly zero.

    Raises:
        ValueError: `proximal_log_probs` is absent, or `log_probs` has another shape than the batch.
    """
    if batch.proximal_log_probs is None:
        raise ValueError(
            "per_token_proximal needs proximal_log_probs, got None: score the batch under the "
            "trainer's weights of the version that sampled it"
        )
    return _difference(log_probs, batch.proximal_log_probs, batch)


def per_token_reference(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Each token against the policy that does not move.

    .. math:: \log \pi(a_t \mid s_t) - \log \pi_{ref}(a_t \mid s_t)

    Raises:
        ValueError: `reference_log_probs` is absent, or `log_probs` has another shape than the batch.
    """
    if batch.reference_log_probs is None:
        raise ValueError(
            "per_token_reference needs reference_log_probs, got None: score the batch under the reference"
        )
    return _difference(log_probs, batch.reference_log_probs, batch)


def per_sequence(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Mean of `per_token` over a rollout's action tokens, repeated along `T`.

    .. math:: \frac{1}{L} \sum_{t} \log \frac{\pi(a_t \mid s_t)}{\mu(a_t \mid s_t)}

    The log of a geometric mean: its thresholds (GSPO: 3e-4 and 4e-4) are far tighter than a token's
    and must not be mixed with those of `per_sequence_product`. Pair it with an aggregate that
    averages over a rollout; a sum over tokens scales its gradient by the length.

    References:
        Zheng et al., GSPO, 2025. https://arxiv.org/abs/2507.18071.
    """
    ratio = per_token(log_probs, batch)
    mean = ratio.sum(-1, keepdim=True) / batch.action_tokens[:, None].clamp(min=1)
    return mean.expand_as(ratio).where(batch.action_mask, 0.0)


def per_sequence_product(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Sum of `per_token` over a rollout's action tokens, repeated along `T`.

    .. math:: \sum_{t} \log \frac{\pi(a_t \mid s_t)}{\mu(a_t \mid s_t)}

    The exact importance weight of the whole rollout: unbiased with `importance_weighted` and
    `sequence_mean`, with a variance that grows exponentially in the length.
    """
    ratio = per_token(log_probs, batch)
    return ratio.sum(-1, keepdim=True).expand_as(ratio).where(batch.action_mask, 0.0)


def _difference(
    log_probs: Float[Tensor, "B T"], reference: Float[Tensor, "rows width"], batch: Batch
) -> Float[Tensor, "B T"]:
    mask = batch.action_mask
    if log_probs.shape != mask.shape:
        raise ValueError(f"log_probs has shape {tuple(log_probs.shape)}, action_mask {tuple(mask.shape)}")
    # Padding may hold NaN or infinities: `where` lets neither value nor gradient of them through.
    # The subtraction cancels: in half precision the difference would be a step of the format, or zero.
    # A reference that was made of the weights in training would take the gradient back.
    return (at_least_single(log_probs) - at_least_single(reference.detach())).where(mask, 0.0)
