"""What do the runs say about one claim? An interval for "how much better", by the kind of claim.

Each kind turns per-seed outcomes into the same evidence: an interval and a test.
Nothing is left out in silence: seeds without a value are counted in the note.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from scipy import stats

from analysis.fits.every import fit
from analysis.statistics.intervals import Interval, share_difference, t_interval
from analysis.statistics.survival import logrank_p, restricted
from simulator.studies.hypothesis import Hypothesis, Kind


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a claim is decided by."""

    interval: Interval
    """How much better `better_arm` is, in the metric's unit; for a threshold, how far beyond it; for a
    fitted quantity, its value."""
    p_value: float
    """Two-sided, of no difference; NaN where it is undefined, as it is for a fitted quantity."""
    test: str
    n: str
    seeds: int
    """Pairs of seeds, or seeds of the smaller arm: what there is least of."""
    note: str = ""
    missing_arms: tuple[str, ...] = ()
    """Arms that the claim names and that have no run at all: there is no evidence, and not by chance."""


def evidence(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Evidence:
    """Evidence for or against one claim, from a table with one row a run."""
    named = (hypothesis.better_arm, hypothesis.worse_arm, *hypothesis.arms)
    missing = tuple(arm for arm in named if arm and not (outcomes["arm"] == arm).any())
    if missing:
        return _nothing(hypothesis, missing)
    return _KINDS[hypothesis.kind](hypothesis, outcomes)


def _paired_difference(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Evidence:
    pairs, note = _pairs(hypothesis, outcomes)
    gains = _sign(hypothesis) * (pairs["better"] - pairs["worse"]).to_numpy(dtype=float)
    interval, p_value = t_interval(gains, confidence=hypothesis.confidence)
    return Evidence(
        interval=interval,
        p_value=p_value,
        test="paired t",
        n=f"{len(pairs)} pairs of seeds",
        seeds=len(pairs),
        note=note,
    )


def _event_share(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Evidence:
    better, worse = (_of(outcomes, arm, hypothesis.metric) for arm in _arms(hypothesis))
    counts = [(int(arm.sum()), len(arm)) for arm in (better, worse)]
    n = ", ".join(f"{events} of {seeds}" for events, seeds in counts)
    (events_a, n_a), (events_b, n_b) = counts
    # Better means more events if "higher", fewer if "lower": put the arm with more first.
    first, second = (counts[0], counts[1]) if hypothesis.direction == "higher" else (counts[1], counts[0])
    interval = share_difference(*first, *second, confidence=hypothesis.confidence)
    # Fisher's test is conservative at a handful of seeds, which is the side to err on here.
    table = np.array([[events_a, n_a - events_a], [events_b, n_b - events_b]])
    p_value = float(stats.fisher_exact(table).pvalue)
    return Evidence(
        interval=interval,
        p_value=p_value,
        test="Fisher exact",
        n=n,
        seeds=min(n_a, n_b),
    )


def _time_to_target(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Evidence:
    """Log-rank over all seeds; the difference is of times restricted to what every seed was watched for.

    A seed that never got there is censored at its own `hours`. min(time, horizon), with the horizon the
    shortest watch of any seed in either arm, is known for every seed, so no seed has to be left out.
    """
    table = outcomes.loc[outcomes["arm"].isin(_arms(hypothesis))].copy()
    table["reached"] = table[hypothesis.metric].notna()
    table["time"] = table[hypothesis.metric].fillna(table["hours"])
    horizon = float(table["hours"].min()) if len(table) else math.nan
    table[hypothesis.metric] = restricted(table["time"].to_numpy(dtype=float), horizon)
    pairs, note = _pairs(hypothesis, table)
    saved = (pairs["worse"] - pairs["better"]).to_numpy(dtype=float)
    interval, _ = t_interval(saved, confidence=hypothesis.confidence)
    better, worse = (table.loc[table["arm"] == arm] for arm in _arms(hypothesis))
    times = [
        column for arm in (better, worse) for column in (arm["time"].to_numpy(), arm["reached"].to_numpy())
    ]
    p_value = logrank_p(*times)
    counts = ", ".join(f"{arm['reached'].sum()} of {len(arm)}" for arm in (better, worse))
    return Evidence(
        interval=interval,
        p_value=p_value,
        test="log-rank",
        n=f"reached by {counts}",
        seeds=len(pairs),
        note=f"hours saved up to {horizon:.3g} h, when the first run ended" + (f"; {note}" if note else ""),
    )


def _threshold(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Evidence:
    assert hypothesis.better_arm is not None  # the record says so at birth
    assert hypothesis.threshold is not None
    values = _of(outcomes, hypothesis.better_arm, hypothesis.metric).to_numpy(dtype=float)
    known = values[np.isfinite(values)]
    margins = _sign(hypothesis) * (known - hypothesis.threshold)
    interval, p_value = t_interval(margins, confidence=hypothesis.confidence)
    missing = f"; {len(values) - len(known)} seeds without a value" if len(known) < len(values) else ""
    return Evidence(
        interval=interval,
        p_value=p_value,
        test="one-sample t",
        n=f"{len(known)} seeds",
        seeds=len(known),
        note=f"margin to {hypothesis.threshold:g}{missing}",
    )


def _fitted(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> Evidence:
    found = fit(hypothesis.metric, outcomes, arms=hypothesis.arms, confidence=hypothesis.confidence)
    return Evidence(
        interval=found.interval,
        p_value=math.nan,
        test="no test",
        n=found.runs,
        seeds=found.seeds,
        note=found.note,
    )


def _pairs(hypothesis: Hypothesis, outcomes: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Values of both arms by seed, and what had to be left out, in words."""
    better, worse = (
        outcomes.loc[outcomes["arm"] == arm].set_index("seed")[hypothesis.metric] for arm in _arms(hypothesis)
    )
    both = pd.concat({"better": better, "worse": worse}, axis=1)
    pairs = both.loc[np.isfinite(both.to_numpy(dtype=float)).all(axis=1)]
    missing = len(both) - len(pairs)
    return pairs, f"{missing} seeds without a value in both arms" if missing else ""


def _of(outcomes: pd.DataFrame, arm: str, metric: str) -> pd.Series[float]:
    return outcomes.loc[outcomes["arm"] == arm, metric]


def _arms(hypothesis: Hypothesis) -> tuple[str, str]:
    assert hypothesis.better_arm is not None  # the record says so at birth
    assert hypothesis.worse_arm is not None
    return hypothesis.better_arm, hypothesis.worse_arm


def _sign(hypothesis: Hypothesis) -> float:
    return 1.0 if hypothesis.direction == "higher" else -1.0


def _nothing(hypothesis: Hypothesis, missing: tuple[str, ...]) -> Evidence:
    interval, p_value = t_interval([], confidence=hypothesis.confidence)
    return Evidence(
        interval=interval,
        p_value=p_value,
        test="not judged",
        n=f"no run of {' and '.join(missing)}",
        seeds=0,
        missing_arms=missing,
    )


_KINDS: Final[dict[Kind, Callable[[Hypothesis, pd.DataFrame], Evidence]]] = {
    "paired_difference": _paired_difference,
    "event_share": _event_share,
    "time_to_target": _time_to_target,
    "threshold": _threshold,
    "fitted": _fitted,
}
