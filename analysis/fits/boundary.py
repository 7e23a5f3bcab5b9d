"""How does the largest learning rate that does not collapse fall with the lag?

Logistic regression of a run's collapse on (log learning rate, log lag). Half of the seeds collapse on the
line a + b log eta + c log S = 0, so eta_max ~ S^-x with x = c / b, the ratio of the slopes. The law of a
drift that is bounded over the lag is x = 1 (Song et al. 2026, https://arxiv.org/abs/2607.01083). An arm
whose collapses would come after the end of its budget, by the line of `analysis.fits.collapse_time`, is
left out: what looks stable there is the end of watching, and would make the exponent come out too small.

An arm's seeds are drawn anew with the fitted chance to collapse, not from those that ran. On a sharp boundary
no arm is mixed, drawing from those that ran gives the same again, and the interval would be a point: in 50
simulated studies of 8 seeds it held the planted exponent once, where this one held it 50 times.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from analysis.fits.collapse_time import beyond_budget
from analysis.fits.record import MINIMUM_EVENTS, Draw, Fit, fewest_seeds, no_fit, varies, with_lag
from analysis.statistics.regression import logistic
from analysis.statistics.resampling import membership, percentiles

Floats = NDArray[np.float64]


def boundary_exponent(table: pd.DataFrame, draw: Draw) -> Fit:
    """The exponent x of eta_max ~ S^-x, over all runs with a lag above 0."""
    fitted, why, used = boundary(table, draw)
    if fitted is None:
        return no_fit(why, used, draw)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A slope that is not positive says that higher rates collapse less: there is no largest stable one.
        exponents = np.where(fitted[:, 1] > 0, fitted[:, 2] / fitted[:, 1], np.nan)
    interval, lost = percentiles(exponents, n=len(used), confidence=draw.confidence)
    interval = dataclasses.replace(interval, method="parametric bootstrap over seeds, by arm")
    notes = [why, lost]
    return Fit(
        interval=interval,
        runs=f"{used['collapsed'].sum()} of {len(used)} runs collapsed, {used['arm'].nunique()} arms",
        seeds=fewest_seeds(used),
        note="; ".join(note for note in notes if note),
    )


def boundary(table: pd.DataFrame, draw: Draw) -> tuple[Floats | None, str, pd.DataFrame]:
    """Coefficients (1, log eta, log S) of observed and drawn samples, what to know of them, the runs used."""
    if "learning_rate" not in table.columns:
        return None, "no learning rate is a factor", table
    table = with_lag(table)
    measured = table.loc[table["fate"] != "not measured"]
    lagged = measured.loc[measured["lag"] > 0]
    late = beyond_budget(lagged)
    used = lagged.loc[~lagged["arm"].isin(late)].reset_index(drop=True)
    broken = used["collapsed"].to_numpy(dtype=bool)
    events = min(int(broken.sum()), int((~broken).sum()))
    if events < MINIMUM_EVENTS:
        return (
            None,
            f"{broken.sum()} of {len(used)} runs collapsed; {MINIMUM_EVENTS} of each are needed",
            used,
        )
    if not (varies(used["learning_rate"]) and varies(used["lag"])):
        return None, "learning rate or lag has one value only", used
    _, member = membership(used["arm"])
    logs = np.log([used.loc[own, ["learning_rate", "lag"]].mean() for own in member.T])
    middle = logs.mean(axis=0)
    design = np.column_stack([np.ones(len(logs)), logs - middle])
    trials = member.sum(axis=0).astype(float)[None]
    observed = logistic(design, (broken.astype(float) @ member)[None], trials)
    chance = expit(observed @ design.T)[0]
    drawn = draw.rng.binomial(trials[0].astype(int), chance, size=(draw.resamples, len(logs)))
    fitted = logistic(design, drawn.astype(float), np.broadcast_to(trials, drawn.shape))
    fitted = np.concatenate([observed, fitted])
    fitted[:, 0] -= fitted[:, 1:] @ middle
    without = len(measured) - len(lagged)
    words = [
        f"{without} runs without lag left out" if without else "",
        f"{len(late)} arms left out: would collapse after their last update" if late else "",
    ]
    return fitted, "; ".join(word for word in words if word), used
