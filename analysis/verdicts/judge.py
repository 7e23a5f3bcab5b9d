"""Does the evidence support a claim, contradict it, or not separate the two? Judged from per-seed outcomes.

One rule for every kind of claim: an interval for "how much better", wholly above the smallest difference
that was claimed to matter, supports the claim; wholly below, it contradicts it; otherwise the verdict is
"not separable", which is a finding, not a failure. A fitted quantity is claimed to lie between two values:
wholly inside supports, wholly outside contradicts. Levels are per claim: of many judged at 95 %, one
interval in twenty misses, so a report states how many were judged. A claim of which an arm has no run at
all is "not run", and none of those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import pandas as pd

from analysis.measures.outcomes import check_seeds
from analysis.statistics.intervals import Interval
from analysis.verdicts.evidence import Evidence, evidence
from analysis.verdicts.seeds_needed import in_words, seeds_needed
from simulator.studies.hypothesis import Hypothesis

Judgement = Literal["supported", "contradicted", "not separable", "not run"]
MINIMUM_SEEDS: Final = 3
"""Below it nothing is decided: with two seeds an interval rests on one difference and on being normal."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judged claim."""

    hypothesis: Hypothesis
    evidence: Evidence
    verdict: Judgement
    seeds_needed: float = math.nan
    """About how many would separate what was seen, where these do not; NaN where nothing can be said."""

    @property
    def claim(self) -> str:
        return self.hypothesis.claim

    @property
    def note(self) -> str:
        """What a reader must know beside the numbers."""
        few = f"fewer than {MINIMUM_SEEDS} seeds decide nothing"
        too_few = self.verdict != "not run" and self.evidence.seeds < MINIMUM_SEEDS
        more = in_words(self.seeds_needed, self.evidence.seeds)
        notes = [self.evidence.note, few if too_few else more]
        return "; ".join(note for note in notes if note)

    @property
    def interval(self) -> Interval:
        return self.evidence.interval


def judge(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Verdict:
    """Judge one claim.

    Args:
        hypothesis: registered before the runs.
        outcomes: one row a run, with columns arm, seed and the claim's metric (`analysis.measures.outcomes`).

    Raises:
        ValueError: if the metric is no column of the outcomes, or a seed of an arm is there twice.
    """
    if hypothesis.kind != "fitted" and hypothesis.metric not in outcomes.columns:
        raise ValueError(
            f"hypothesis {hypothesis.id!r}: outcomes carry no {hypothesis.metric!r}; "
            f"they have {sorted(map(str, outcomes.columns))}"
        )
    check_seeds(outcomes)
    found = evidence(hypothesis, outcomes)
    verdict = (
        decide(found, hypothesis.minimum_difference)
        if hypothesis.between is None
        else decide_between(found, hypothesis.between)
    )
    open_still = verdict == "not separable" and found.seeds >= MINIMUM_SEEDS
    needed = seeds_needed(hypothesis, found, outcomes) if open_still else math.nan
    return Verdict(hypothesis=hypothesis, evidence=found, verdict=verdict, seeds_needed=needed)


def judge_all(hypotheses: Sequence[Hypothesis], outcomes: pd.DataFrame) -> list[Verdict]:
    """Judge every claim on its own; no level is corrected for their number."""
    return [judge(hypothesis, outcomes) for hypothesis in hypotheses]


def decide(found: Evidence, beyond: float) -> Judgement:
    """The one rule. A test that is not the interval's own must agree before a difference is asserted."""
    interval = found.interval
    if found.missing_arms:
        return "not run"
    if math.isnan(found.p_value) or found.seeds < MINIMUM_SEEDS:
        return "not separable"
    certain = found.p_value <= 1 - interval.confidence
    if interval.low > beyond and certain:
        return "supported"
    # That a claimed margin is not met needs no difference from 0, so no test against 0.
    if interval.high < beyond and (certain or beyond > 0):
        return "contradicted"
    return "not separable"


def decide_between(found: Evidence, between: tuple[float, float]) -> Judgement:
    """An interval wholly inside supports, one wholly outside contradicts."""
    low, high = found.interval.low, found.interval.high
    if found.missing_arms:
        return "not run"
    if math.isnan(low) or math.isnan(high) or found.seeds < MINIMUM_SEEDS:
        return "not separable"
    if between[0] <= low and high <= between[1]:
        return "supported"
    return "contradicted" if high < between[0] or low > between[1] else "not separable"


def holm(p_values: Sequence[float]) -> list[float]:
    """P values made fit for their number, by Holm's steps; NaN stays NaN and is not counted.

    References:
        Holm 1979, https://www.jstor.org/stable/4615733.
    """
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    adjusted, reach = [math.nan] * len(p_values), 0.0
    for rank, (p, i) in enumerate(known):
        reach = max(reach, min(1.0, (len(known) - rank) * p))
        adjusted[i] = reach
    return adjusted


def verdict_rows(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a claim: what was needed, what was found, and how sure."""
    adjusted = holm([v.evidence.p_value for v in verdicts])
    return pd.DataFrame(
        [
            {
                "id": v.hypothesis.id,
                "claim": v.claim,
                "verdict": v.verdict,
                "estimate": v.interval.estimate,
                "low": v.interval.low,
                "high": v.interval.high,
                "beyond": v.hypothesis.minimum_difference,
                "between": v.hypothesis.between,
                "n": v.evidence.n,
                "p_value": v.evidence.p_value,
                "p_holm": p_holm,
                "test": v.evidence.test,
                "interval": v.interval.method,
                "seeds_needed": v.seeds_needed,
                "note": v.note,
                "missing_arms": list(v.evidence.missing_arms),
                "source": v.hypothesis.source,
            }
            for v, p_holm in zip(verdicts, adjusted, strict=True)
        ]
    )
