r"""Entropy: how undecided is the policy at each token, and what keeps it so?

Exactly, from the logits, :math:`H = -\sum_v \pi_v \log\pi_v`; its derivative is a bonus as it stands::

    bonus = estimator.aggregate.reduce(weight * token_entropy(logits, batch), batch.action_mask, total)
    (loss - bonus).backward()

Or from the sampled tokens alone, as a regulariser: `entropy_bonus`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from algorithms.estimator import Regulariser
from algorithms.kl import detached_ratio, require_weight_and_cap, with_slope
from algorithms.piece import piece
from algorithms.precision import at_least_single
from algorithms.ratio import LogRatio, per_token
from algorithms.rollout import Batch


def token_entropy(
    logits: Float[Tensor, "B T V"], batch: Batch, *, chunk_tokens: int = 256
) -> Float[Tensor, "B T"]:
    r"""Entropy of the distribution that each action token was drawn from, in nats.

    .. math:: H(s_t) = -\sum_v \pi(v \mid s_t) \log \pi(v \mid s_t), \qquad
        \pi = \mathrm{softmax}(z_t / \tau)

    Half-precision logits are widened a chunk at a time, and again in the backward pass: no float32 copy
    of all logits exists at any moment. A token that the logits exclude (minus infinity) adds nothing.

    Args:
        logits: row t predicts token t of the response.
        batch: reads `action_mask` and `temperature`.
        chunk_tokens: *choice*, 256: positions worked on at once. A vocabulary of 150,000 then needs a few
            float32 tensors of 150 MiB at a time.

    Returns:
        Nats, in single precision at least; exactly zero, with zero gradient, off the action tokens.

    Raises:
        ValueError: `logits` and `batch` disagree on rollouts or tokens, or `chunk_tokens` is not positive.
    """
    mask = batch.action_mask
    if logits.shape[:2] != mask.shape:
        raise ValueError(f"logits cover {tuple(logits.shape[:2])}, action_mask {tuple(mask.shape)}")
    if chunk_tokens < 1:
        raise ValueError(f"chunk_tokens must be positive, got {chunk_tokens}")
    temperature = at_least_single(batch.temperature)[:, None].expand(mask.shape)
    columns = (logits.flatten(0, 1), temperature.flatten(), mask.flatten())
    pieces = zip(*(torch.split(column, chunk_tokens) for column in columns), strict=True)
    # Recomputed in the backward pass: each chunk's softmax would otherwise be kept until then.
    entropies = [
        checkpoint(_entropy, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces
    ]
    return torch.cat(entropies).view(mask.shape)


@piece
def entropy_bonus(weight: float, *, importance: LogRatio = per_token, cap: float = math.inf) -> Regulariser:
    r"""Minus the entropy, from the sampled tokens alone.

    .. math:: \nabla = w\ \mathrm{sg}\Bigl[\min\Bigl(\frac{\pi}{\mu},\ C\Bigr) \log\pi\Bigr] \nabla\log\pi,
        \qquad \text{value} = w\, \min(\pi/\mu,\ C) \log\pi

    Value and gradient are unbiased for :math:`-w H` at the prefixes that mu sampled, without a cap. The
    derivative of :math:`\log\pi` as it stands would be zero in expectation: no bonus at all. Noisier than
    `token_entropy`, which sums over the vocabulary; this needs no logits.

    Args:
        weight: in units of surrogate a nat.
        importance: log(pi / mu) of whatever sampled the tokens; `per_sequence_product` for pi's own prefixes.
        cap: largest weight, at least 1; infinity truncates nothing short of `bounded_exp`.

    Raises:
        ValueError: `weight` is negative or not finite, or `cap` below 1.

    References:
        Williams, Peng, Function Optimization Using Connectionist Reinforcement Learning Algorithms, 1991.
        https://doi.org/10.1080/09540099108946587.
    """
    require_weight_and_cap(weight, cap)

    def penalty(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
        log_probs = at_least_single(log_probs).where(batch.action_mask, 0.0)
        surprise = detached_ratio(importance, cap, log_probs, batch) * log_probs
        return weight * with_slope(surprise, surprise, log_probs)

    return penalty


def _entropy(
    logits: Float[Tensor, "n V"], temperature: Float[Tensor, " n"], mask: Bool[Tensor, " n"]
) -> Float[Tensor, " n"]:
    # Mask before the softmax: its backward pass would turn NaN logits of padding into NaN gradients.
    tempered = at_least_single(logits).where(mask[:, None], 0.0) / temperature[:, None]
    log_probs = tempered.log_softmax(-1)
    # An excluded token has probability zero and a log-prob of minus infinity: the product is zero.
    finite = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
    return -(log_probs.exp() * finite).sum(-1).where(mask, 0.0)
