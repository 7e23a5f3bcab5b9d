"""Pictures of exact bias: by lag, one line an estimator; over the half-widths of a band, as a heat map."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.lines import mean_curves, seed_range
from analysis.figures.style import Look


def by_lag(
    summary: pd.DataFrame,
    axes: Axes,
    *,
    look: Mapping[str, Look],
    column: str = "relative_bias",
    label: str = "relative bias",
    levels: Mapping[str, float] | None = None,
) -> None:
    """One number against lag, mean over worlds with its interval, one line an estimator.

    Args:
        summary: from `bias_report.summary`, by estimator and lag.
        column: of the summary; its `_low` and `_high` are the band.
        levels: named heights to compare with.
    """
    curves = summary.rename(
        columns={
            "estimator": "arm",
            "lag": "x",
            column: "mean",
            f"{column}_low": "low",
            f"{column}_high": "high",
        }
    )
    mean_curves(curves, axes, look=look, x="lag (updates, imposed)", y=label, levels=levels)
    lags = sorted(summary["lag"].unique())
    # Lag 0 has a place on it; beyond 1 it is logarithmic.
    axes.set_xscale("symlog", linthresh=1, base=2)
    axes.set_xticks(lags, [str(lag) for lag in lags])
    axes.minorticks_off()
    axes.set_xlim(min(lags) - 0.1)


def sweep_heat(
    summary: pd.DataFrame,
    axes: Axes,
    *,
    trust: str,
    lag: int,
    column: str = "relative_bias",
    label: str = "relative bias",
) -> None:
    """One number over eps_low and eps_high, written in every cell; colours run from 0 to 1.

    Args:
        summary: from `bias_report.summary`, by trust, eps_low, eps_high and lag.
    """
    own = summary[(summary["trust"] == trust) & (summary["lag"] == lag)]
    grid = own.pivot(index="eps_low", columns="eps_high", values=column)
    values = grid.to_numpy(dtype=float)
    axes.pcolormesh(values, cmap="cividis", vmin=0.0, vmax=1.0, edgecolors="white", linewidth=0.5)
    for (row, place), value in np.ndenumerate(values):
        ink = "black" if value > 0.45 else "white"
        axes.text(
            place + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", color=ink, fontsize="small"
        )
    for ticks, names in ((axes.set_xticks, grid.columns), (axes.set_yticks, grid.index)):
        ticks(np.arange(len(names)) + 0.5, [f"{name:g}" for name in names])
    axes.tick_params(length=0)
    axes.set(xlabel="eps_high", ylabel="eps_low")
    axes.set_title(f"{trust}, lag {lag}: {label} (n = {seed_range(own['n'])})", loc="left")
