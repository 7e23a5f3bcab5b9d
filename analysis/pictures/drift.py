"""Figures of a study that show how far the policy had moved: KL and ESS by lag, the tail of the ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from analysis.figures import factors as factor_figures
from analysis.figures import ratios as ratio_figures
from analysis.figures.lines import runs_in_words
from analysis.figures.style import drawing
from analysis.fits.drift import drift_exponent
from analysis.fits.record import Draw, with_lag
from analysis.pictures.factors import NOWHERE, default_line, ends, looks_of, restriction, words
from analysis.pictures.picture import Picture
from analysis.statistics.intervals import Interval
from analysis.study import Study
from analysis.tables.factors import NothingToShowError, by_factor, chosen, column_of
from analysis.tables.means import in_words, intervals_in_words
from analysis.tables.ratio_tail import tail_table

SLOPES: Final = {"slope 1 (diffusive)": 1.0, "slope 2 (ballistic)": 2.0}
RESAMPLES: Final = 999


def drift_by_lag(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    of: str = "k3",
    ess: str = "ess_token",
    tokens: int = 1,
    line: str | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """KL and effective sample size against lag; `tokens` are those that one weight of the ESS is made of.

    Beside the KL stands the slope that was fitted to it, and what it is called; beside the ESS the theory of
    normal log-ratios, exp(-2 T KL).
    """
    used = with_lag(chosen(study.outcomes, where)).reset_index(drop=True)
    line = line or default_line(study, but="lag")
    drift = by_factor(used, factor="lag", line=line, metric=of, rng=rng)
    size = by_factor(used, factor="lag", line=line, metric=ess, rng=rng)
    if drift.empty or size.empty:
        raise NothingToShowError(f"no run measured {of!r} and {ess!r}")
    draw = Draw(rng=rng, resamples=RESAMPLES, confidence=0.95)
    fits = {
        str(of_line): drift_exponent(own.reset_index(drop=True), draw, of=of).interval
        for of_line, own in used.groupby(line, sort=False)
    }
    fitted = {of_line: found.estimate for of_line, found in fits.items() if math.isfinite(found.estimate)}
    said = "; ".join(f"{of_line} {drift_name(fits[of_line])}" for of_line in fitted)
    look = looks_of(study, line)
    predicted = drift.assign(mean=np.exp(-2 * tokens * drift["mean"]))
    caption = (
        f"Mean over each run's updates, then over {runs_in_words(drift['n'])} a point, with 95 % interval."
    )
    return [
        Picture(
            title=f"Drift by lag ({of})",
            drawing=drawing(
                partial(
                    factor_figures.lines_on_logs,
                    drift,
                    look=look,
                    x="lag (updates)",
                    y=f"{of} (nats a token)",
                    slopes=SLOPES,
                    fitted=fitted,
                ),
                name=f"{name}-kl",
            ),
            alt=f"KL between sampling and training against lag: {ends(drift)}.",
            caption=f"{caption} Slope over runs that did not collapse: {said or 'cannot be fitted'}."
            f"{restriction(where)}",
            data=drift,
        ),
        Picture(
            title="Effective sample size by lag",
            drawing=drawing(
                partial(
                    factor_figures.lines_with_theory,
                    size,
                    predicted,
                    look=look,
                    x="lag (updates)",
                    y=f"{words(ess)} (share)",
                ),
                name=f"{name}-ess",
            ),
            alt=f"Effective sample size against lag: {ends(size)}.",
            caption=f"{caption} Dotted: exp(-2 x {tokens} x {of}), of log-ratios that are normal and"
            f" independent.{restriction(where)}",
            data=size.merge(
                predicted[["line", "level", "mean"]], on=["line", "level"], suffixes=("", "_theory")
            ),
        ),
    ]


def ratio_tail(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    line: str | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Survival function of the absolute log-ratios, from the quantiles of each update."""
    used = chosen(study.outcomes, where)
    line = line or default_line(study, but="")
    table = tail_table(study.updates, used, line=column_of(used, line), rng=rng)
    if table.empty:
        raise NothingToShowError("no update recorded quantiles of its log-ratios")
    last = table.loc[table["beyond"] == table["beyond"].min()]
    said = "; ".join(
        f"{of} {size}, n = {n}"
        for of, size, n in zip(last["line"], intervals_in_words(last), last["n"], strict=True)
    )
    return [
        Picture(
            title="How far from 1 are the ratios?",
            drawing=drawing(partial(ratio_figures.tail, table, look=looks_of(study, line)), name=name),
            alt=f"Survival function of absolute log-ratios. One token in {1 / table['beyond'].min():,.0f}"
            f" exceeds (nats): {said}.",
            caption="Share of tokens whose log-ratio is larger in size. Points: p50, p90, p99 and p99.9 of"
            f" each update, averaged over the tokens of a run, then over {runs_in_words(table['n'])}; bars:"
            f" 95 % interval.{restriction(where)}",
            data=table,
        )
    ]


def drift_name(slope: Interval) -> str:
    """A fitted slope with its interval, and what a drift that grows so is called."""
    return f"{in_words(slope.estimate, slope.low, slope.high, form='{:.2f}')}, {_called(slope)}"


def _called(slope: Interval) -> str:
    if not math.isfinite(slope.low):
        return "without an interval"
    one, two = slope.low <= 1 <= slope.high, slope.low <= 2 <= slope.high
    if one or two:
        return "diffusive or ballistic" if one and two else "diffusive" if one else "ballistic"
    if slope.high < 1:
        return "slower than diffusive"
    return "faster than ballistic" if slope.low > 2 else "between diffusive and ballistic"
