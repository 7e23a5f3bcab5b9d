"""How many samples are the data still worth, and how far apart are sampling and training policy?"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.audit.checks.grade import above, below, worse
from analysis.audit.finding import Check, Finding, Severity
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import level, trend


def few_samples(log: Log, limits: Limits) -> list[Finding]:
    """Effective sample size: its level, if it is a share, and its fall."""
    updates, values = log.column("ess")
    now = level(values)
    severity: Severity | None = below(now, limits.ess) if values.max() <= 1.0 + 1e-6 else None
    found = trend(updates, values, start_up=limits.start_up, fewest=limits.fewest_updates)
    falls = (
        found is not None and found.rank <= -limits.monotone and found.late <= limits.ess_fall * found.early
    )
    severity = worse(severity, "warning" if falls else None)
    if severity is None:
        return []
    evidence = {"last_quarter": now}
    said = f"the effective sample size is {now:.3g} of the samples"
    if falls and found is not None:
        evidence |= {"early": found.early, "late": found.late}
        said = f"the effective sample size fell from {found.early:.3g} to {found.late:.3g}"
    return [
        Finding(
            check="effective sample size",
            severity=severity,
            what=said,
            evidence=evidence,
            n=len(values),
            where=found.where if falls and found is not None else None,
            change=log.system.changes.drift,
        )
    ]


def far_apart(log: Log, limits: Limits) -> list[Finding]:
    """Divergence of behaviour and trainer."""
    name = "kl_k3" if log.has("kl_k3") else "kl_k1"
    updates, values = log.column(name)
    now = level(np.abs(values))
    severity = above(now, limits.kl)
    if severity is None:
        return []
    return [
        Finding(
            check="divergence",
            severity=severity,
            what=f"behaviour and trainer are {now:.3g} nats a token apart ({name})",
            evidence={"last_quarter_nats": now, "worst_nats": float(np.abs(values).max())},
            n=len(values),
            where=(float(updates[0]), float(updates[-1])),
            change=log.system.changes.drift,
        )
    ]


def log_probs_are_numbers(log: Log, _limits: Limits) -> list[Finding]:
    """NaN or infinities among the counted tokens' log-probs, and lists of different lengths."""
    strange = log.strange
    if not strange.tokens_not_finite and not strange.uneven:
        return []
    return [
        Finding(
            check="log-probs",
            severity="problem",
            what=(
                f"{strange.tokens_not_finite} counted tokens have a log-prob that is no number, and "
                f"{strange.uneven} "
                "rollouts have lists of different lengths"
            ),
            evidence={"tokens": float(strange.tokens_not_finite), "rollouts": float(strange.uneven)},
            n=int(log.tokens["tokens"].sum()),
            of="tokens",
            change=log.system.changes.mismatch,
        )
    ]


CHECKS: Final = (
    Check(
        name="effective sample size",
        question="how many samples is the data worth?",
        needs=(("ess",),),
        find=few_samples,
    ),
    Check(
        name="divergence",
        question="how far apart are sampling and training policy?",
        needs=(("kl_k3",), ("kl_k1",)),
        find=far_apart,
    ),
    Check(
        name="log-probs",
        question="are per-token log-probs numbers?",
        needs=(("token log-probs",),),
        find=log_probs_are_numbers,
    ),
)
