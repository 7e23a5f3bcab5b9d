r"""Engine mismatch: what part of a ratio is age, and what part another implementation of the same weights?

.. math:: \frac{\pi}{\mu} = \underbrace{\frac{\pi}{\pi_{old}}}_{\text{update}}\
    \underbrace{\frac{\pi_{old}}{\pi_{prox}}}_{\text{staleness}}\
    \underbrace{\frac{\pi_{prox}}{\mu}}_{\text{mismatch}}

mu is the engine's at the version that sampled, pi_prox the trainer's own at that version
(`Batch.proximal_log_probs`), pi_old the trainer's when it took the batch. Updates and staleness shrink with
the learning rate and the lag; mismatch does not: it is what remains at a learning rate of zero. Other
kernels, other precision, other routing of experts, another temperature all look like it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import final

from jaxtyping import Bool, Float, Float64
from torch import Tensor

from algorithms.correction import Correction
from algorithms.diagnostics import k3
from algorithms.piece import piece
from algorithms.ratio import per_token, per_token_old, per_token_proximal
from algorithms.rollout import Batch


@piece
def on_mismatch(correction: Correction) -> Correction:
    r"""The same correction of :math:`\pi_{prox} / \mu`, engine mismatch alone, instead of pi_old / mu.

    A token is then truncated or dropped for what its engine did, not for its age. The rest of the ratio,
    :math:`\pi / \pi_{prox}`, is `ratio.per_token_proximal`: a loss that uses it sees staleness and updates
    alone, and the two multiply to pi / mu. A loss against pi_old leaves staleness uncorrected.

    Args:
        correction: any function of `correction`: it reads pi_old / mu, and here pi_prox / mu in its place.

    Raises:
        ValueError: on use, `proximal_log_probs` is absent.
    """

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        return correction(dataclasses.replace(batch, old_log_probs=_proximal(batch)))

    return correct


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """The three log-ratios of each token, in nats and double precision; exactly zero off the action tokens.

    They add up to log(pi / mu): to the last bit, where the log-probs are float32 (and no closer to zero
    than a millionth).
    """

    update: Float64[Tensor, "B T"]
    """log(pi / pi_old): updates on this very batch."""
    staleness: Float64[Tensor, "B T"]
    """log(pi_old / pi_prox): updates between sampling and taking, in the trainer's own numerics."""
    mismatch: Float64[Tensor, "B T"]
    """log(pi_prox / mu): the same weights, another implementation."""


def log_parts(log_probs: Float[Tensor, "B T"], batch: Batch) -> LogParts:
    """Split log(pi / mu) by cause.

    Args:
        log_probs: log pi of the sampled tokens; no gradient passes.
        batch: reads `old_log_probs`, `proximal_log_probs` and `behaviour_log_probs`.

    Raises:
        ValueError: `old_log_probs` or `proximal_log_probs` is absent, or a shape differs.
    """
    if batch.old_log_probs is None:
        raise ValueError("log_parts needs old_log_probs, got None: score the batch before its first update")
    # Doubles: the difference of two float32 is then exact, and so is the sum of three such.
    old, proximal = batch.old_log_probs.detach().double(), _proximal(batch).detach().double()
    return LogParts(
        update=per_token_old(log_probs.detach().double(), batch),
        staleness=per_token_proximal(old, batch),
        mismatch=per_token(proximal, batch),
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One cause's share of the distance from mu, over the action tokens; all 0.0 if there is none."""

    k1: float
    """Mean of minus the log-ratio, in nats a token: the three add up to the estimate of KL(mu || pi).

    Of `mismatch` it estimates KL(mu || pi_prox). Of the others it is a share, not a divergence, since mu
    sampled the tokens and not the policy in their denominator: it may be negative.
    """
    absolute: float
    """Mean absolute log-ratio, nats a token. Below 1e-5 two float32 paths agree."""
    largest: float
    """Largest absolute log-ratio, nats."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DriftByCause:
    """How far pi stands from the engine that sampled, and why."""

    update: Part
    staleness: Part
    mismatch: Part
    total: Part
    mismatch_k3: float
    """KL(mu || pi_prox) in nats a token, never negative: the engine's own, whatever was learned."""


def drift_by_cause(log_probs: Float[Tensor, "B T"], batch: Batch) -> DriftByCause:
    """The distance of pi from mu, split into updates on this batch, staleness and engine mismatch.

    At a learning rate of zero `update` and `staleness` are exactly zero: whatever a clip against mu does
    then is numerical mismatch, and no drift of the policy.

    Raises:
        ValueError: as `log_parts`.
    """
    parts, mask = log_parts(log_probs, batch), batch.action_mask
    return DriftByCause(
        update=_part(parts.update, mask),
        staleness=_part(parts.staleness, mask),
        mismatch=_part(parts.mismatch, mask),
        total=_part(parts.update + parts.staleness + parts.mismatch, mask),
        mismatch_k3=k3(parts.mismatch, mask),
    )


def _part(log_ratio: Float64[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Part:
    kept = log_ratio[mask]
    if len(kept) == 0:
        return Part(k1=0.0, absolute=0.0, largest=0.0)
    size = kept.abs()
    return Part(k1=float(-kept.mean()), absolute=float(size.mean()), largest=float(size.max()))


def _proximal(batch: Batch) -> Float[Tensor, "B T"]:
    if batch.proximal_log_probs is None:
        raise ValueError(
            "engine mismatch needs proximal_log_probs, got None: score the batch under the trainer's "
            "weights of the version that sampled it"
        )
    return batch.proximal_log_probs
