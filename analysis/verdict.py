"""Does the evidence support a claim, contradict it, or not separate the two? Judged from per-seed outcomes.

One rule for every kind of claim: an interval for "how much better", wholly above the smallest difference
that was claimed to matter, supports the claim; wholly below, it contradicts it; otherwise the verdict is
"not separable", which is a finding, not a failure. Levels are per claim: of many judged at 95 %, one
interval in twenty misses, so a report states how many were judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import pandas as pd

from analysis.evidence import Evidence, evidence
from analysis.outcomes import check_seeds
from analysis.statistics import Interval
from simulator.studies.hypothesis import Hypothesis

Judgement = Literal["supported", "contradicted", "not separable"]
MINIMUM_SEEDS: Final = 3
"""Below it nothing is decided: with two seeds an interval rests on one difference and on being normal."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A judged claim."""

    hypothesis: Hypothesis
    evidence: Evidence
    verdict: Judgement

    @property
    def claim(self) -> str:
        return self.hypothesis.claim

    @property
    def note(self) -> str:
        """What a reader must know beside the numbers."""
        few = f"fewer than {MINIMUM_SEEDS} seeds decide nothing"
        notes = [self.evidence.note, few if self.evidence.seeds < MINIMUM_SEEDS else ""]
        return "; ".join(note for note in notes if note)

    @property
    def interval(self) -> Interval:
        return self.evidence.interval


def judge(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Verdict:
    """Judge one claim.

    Args:
        hypothesis: registered before the runs.
        outcomes: one row a run, with columns arm, seed and the claim's metric (`analysis.outcomes`).

    Raises:
        ValueError: if the metric is no column of the outcomes, or a seed of an arm is there twice.
    """
    if hypothesis.metric not in outcomes.columns:
        raise ValueError(
            f"hypothesis {hypothesis.id!r}: outcomes carry no {hypothesis.metric!r}; "
            f"they have {sorted(map(str, outcomes.columns))}"
        )
    check_seeds(outcomes)
    found = evidence(hypothesis, outcomes)
    return Verdict(
        hypothesis=hypothesis, evidence=found, verdict=decide(found, hypothesis.minimum_difference)
    )


def judge_all(hypotheses: Sequence[Hypothesis], outcomes: pd.DataFrame) -> list[Verdict]:
    """Judge every claim on its own; no level is corrected for their number."""
    return [judge(hypothesis, outcomes) for hypothesis in hypotheses]


def decide(found: Evidence, beyond: float) -> Judgement:
    """The one rule. A test that is not the interval's own must agree before a difference is asserted."""
    interval = found.interval
    if math.isnan(found.p_value) or found.seeds < MINIMUM_SEEDS:
        return "not separable"
    certain = found.p_value <= 1 - interval.confidence
    if interval.low > beyond and certain:
        return "supported"
    # That a claimed margin is not met needs no difference from 0, so no test against 0.
    if interval.high < beyond and (certain or beyond > 0):
        return "contradicted"
    return "not separable"


def verdict_rows(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row a claim: what was needed, what was found, and how sure."""
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
                "n": v.evidence.n,
                "p_value": v.evidence.p_value,
                "test": v.evidence.test,
                "note": v.note,
                "source": v.hypothesis.source,
            }
            for v in verdicts
        ]
    )
