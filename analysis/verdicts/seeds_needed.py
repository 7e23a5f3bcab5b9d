"""How many seeds would decide a claim that these do not, if the truth were what was seen?

By the claim's own kind of evidence: a mean by the power of its t test, shares by Fisher's, a fitted quantity
by its interval, which shrinks as one over the root of the number of seeds. What was seen at a few seeds is
rough, and so is the answer: an order of size. A claim with nothing seen, or exactly at its margin, has none.
"""

from __future__ import annotations

import math
from typing import Final

import pandas as pd
from scipy import stats

from analysis.statistics.intervals import Interval
from analysis.statistics.seeds import POWER, seeds_to_separate, seeds_to_separate_shares
from analysis.verdicts.evidence import Evidence
from simulator.studies.hypothesis import Hypothesis

MOST_SAID: Final = 1000
"""More seeds than this are only said to be more."""


def seeds_needed(hypothesis: Hypothesis, found: Evidence, outcomes: pd.DataFrame) -> float:
    """Seeds an arm that would tell a difference as large as the one seen; infinite or NaN if none would."""
    if hypothesis.kind == "fitted":
        assert hypothesis.between is not None  # the record says so at birth
        return _of_fit(found.interval, found.seeds, hypothesis.between)
    if hypothesis.kind == "event_share" and hypothesis.minimum_difference == 0:
        return _of_shares(hypothesis, outcomes)
    if hypothesis.kind == "event_share":
        return _of_width(found.interval, found.seeds, found.interval.estimate - hypothesis.minimum_difference)
    return _of_mean(found.interval, hypothesis.minimum_difference)


def in_words(needed: float, seeds: int) -> str:
    """What a reader is told; empty where nothing can be said."""
    if math.isnan(needed):
        return ""
    if math.isinf(needed):
        return f"no number of seeds separates the difference seen at n = {seeds}: it is all but none"
    count = f"more than {MOST_SAID:,}" if needed > MOST_SAID else f"about {needed:.0f}"
    return f"{count} seeds would separate one as large as was seen (power {POWER:.0%}); n was {seeds}"


def _of_mean(interval: Interval, beyond: float) -> float:
    """Student's t: the spread is read off its interval."""
    half = (interval.high - interval.low) / 2
    if interval.n < 2 or not math.isfinite(half):
        return math.nan
    spread = half * math.sqrt(interval.n) / float(stats.t.ppf((1 + interval.confidence) / 2, interval.n - 1))
    return seeds_to_separate(interval.estimate - beyond, spread, confidence=interval.confidence)


def _of_shares(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> float:
    arms = (hypothesis.better_arm, hypothesis.worse_arm)
    shares = [float(outcomes.loc[outcomes["arm"] == arm, hypothesis.metric].mean()) for arm in arms]
    if any(math.isnan(share) for share in shares):
        return math.nan
    return seeds_to_separate_shares(*shares, confidence=hypothesis.confidence)


def _of_fit(interval: Interval, seeds: int, between: tuple[float, float]) -> float:
    """To lie inside, both ends must fit; to lie outside, the end that faces the claim must be clear of it."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return math.nan
    (low, high), value = between, interval.estimate
    below, above = value - interval.low, interval.high - value
    if value < low:
        return _shrunk(seeds, above, low - value, interval.confidence)
    if value > high:
        return _shrunk(seeds, below, value - high, interval.confidence)
    return max(
        _shrunk(seeds, below, value - low, interval.confidence),
        _shrunk(seeds, above, high - value, interval.confidence),
    )


def _of_width(interval: Interval, seeds: int, distance: float) -> float:
    if math.isnan(interval.low):
        return math.nan
    half = interval.estimate - interval.low if distance > 0 else interval.high - interval.estimate
    return _shrunk(seeds, half, abs(distance), interval.confidence)


def _shrunk(seeds: int, half: float, room: float, confidence: float) -> float:
    """Seeds at which an interval whose half-width is `half` now clears `room` with the power."""
    if room <= 0:
        return math.inf
    z = float(stats.norm.ppf((1 + confidence) / 2))
    return float(math.ceil(seeds * (half / room * (z + float(stats.norm.ppf(POWER))) / z) ** 2))
