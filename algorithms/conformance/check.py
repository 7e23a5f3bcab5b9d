"""Does this estimator obey the laws, and if not, what is the smallest batch on which it does not?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.errors import Flaky
from jaxtyping import Float
from torch import Tensor

from algorithms.conformance.hard_batches import HardBatch, hard_batches
from algorithms.conformance.laws import (
    LAWS,
    Law,
    LawBroken,
    extreme_ratios_stay_finite,
    loss_and_gradient,
)
from algorithms.conformance.subject import Subject, as_subject
from algorithms.rollout import Batch

MODERATE_NATS = 4.0
"""Where laws compare sums: beyond every band, and far from where rounding would decide."""
EXTREME_NATS = 100.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """The smallest batch that hypothesis found. Lists hold a list a rollout, of an entry a token."""

    what: str
    """The quantity that is wrong."""
    expected: Any
    got: Any
    action_mask: list[list[int]]
    log_ratios: list[list[float]]
    """log pi - log mu, in nats."""
    old_log_ratios: list[list[float]]
    """log pi - log pi_old, in nats."""
    log_probs: list[list[float]]
    rewards: list[float]
    """Of each rollout."""
    advantages: list[list[float]] | str
    """Or why there are none."""
    group_ids: list[int]
    truncated: list[bool]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one law held on every batch that was tried."""

    law: str
    says: str
    holds: bool
    examples: int
    """Batches on which it was tried until it broke, if it did; those that made it small not counted."""
    refused: int
    """Batches more that the estimator refused with a ValueError, which is its right."""
    counterexample: Counterexample | None = None
    why: str = ""
    """Where there is no counterexample: why it does not hold."""


def check(
    estimator: Subject | Callable[..., Tensor],
    *,
    laws: Sequence[Law] = LAWS,
    examples: int = 100,
    shortest: int = 1,
    longest: int = 4,
) -> list[Verdict]:
    """Try every law on hard batches, the same ones on every machine.

    Args:
        estimator: or a loss function of (log_probs, old_log_probs, advantages, mask), each `[B, T]`,
            and perhaps total, the action tokens of the whole batch.
        examples: batches a law.
        shortest: fewest action tokens of a rollout that has any, for what refuses short ones.
        longest: most tokens of a rollout. Short ones find faults sooner, and can be checked by hand.

    Raises:
        ValueError: it is neither, `examples` or `shortest` is below one, or `shortest` above `longest`.
    """
    if examples < 1:
        raise ValueError(f"examples must be at least 1, got {examples}")
    subject = as_subject(estimator)
    return [_judge(law, subject, examples, shortest, longest) for law in laws]


def _judge(law: Law, subject: Subject, examples: int, shortest: int, longest: int) -> Verdict:
    tried, refusals = 0, [""]
    breaking: list[HardBatch] = []

    def once(case: HardBatch) -> None:
        nonlocal tried
        batch, log_probs = case
        unbroken = not breaking
        try:
            loss_and_gradient(subject, log_probs, batch)
        except ValueError as refusal:
            refusals.extend([str(refusal)] * unbroken)
            return
        except Exception as failed:
            tried += unbroken
            breaking[:] = [case]
            raise _as_broken(failed) from None
        tried += unbroken
        try:
            law(subject, batch, log_probs)
        except Exception as failed:
            breaking[:] = [case]
            raise _as_broken(failed) from None

    nats = EXTREME_NATS if law is extreme_ratios_stay_finite else MODERATE_NATS
    batches = hard_batches(
        shortest=shortest, longest=longest, largest_log_ratio=nats, some=True, poison=False
    )
    broken: Counterexample | None = None
    why = ""
    try:
        _settings(examples)(given(batches)(once))()
    except LawBroken as found:
        # Hypothesis ends on the smallest batch, tried once more.
        broken = _counterexample(found, subject, *breaking[0])
    except Flaky:
        why = "the same batch gave another answer when tried again"
    if not (broken or why or tried):
        why = f"refused all {len(refusals) - 1} batches; of the last it said: {refusals[-1]}"
    return Verdict(
        law=law.__name__,
        says=(inspect.getdoc(law) or "").partition("\n")[0],
        holds=not (broken or why),
        examples=tried,
        refused=len(refusals) - 1,
        counterexample=broken,
        why=why,
    )


def _settings(examples: int) -> Callable[[Any], Any]:
    """Nothing on disk, nothing printed, nothing left to chance or to the clock."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


def _as_broken(failed: Exception) -> LawBroken:
    if isinstance(failed, LawBroken):
        return failed
    said = " ".join(str(failed).split())
    return LawBroken("loss", "a number", f"{type(failed).__name__}: {said[:300]}")


def _counterexample(
    found: LawBroken, subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]
) -> Counterexample:
    advantages: list[list[float]] | str
    try:
        advantages = subject.advantage(batch).where(batch.action_mask, 0.0).tolist()
    except Exception as failed:
        advantages = f"{type(failed).__name__}: {failed}"
    assert batch.old_log_probs is not None  # hard_batches fills it
    return Counterexample(
        what=found.what,
        expected=found.expected,
        got=found.got,
        action_mask=batch.action_mask.int().tolist(),
        log_ratios=(log_probs - batch.behaviour_log_probs).tolist(),
        old_log_ratios=(log_probs - batch.old_log_probs).tolist(),
        log_probs=log_probs.tolist(),
        rewards=batch.returns.tolist(),
        advantages=advantages,
        group_ids=batch.group_ids.tolist(),
        truncated=batch.truncated.tolist(),
    )
