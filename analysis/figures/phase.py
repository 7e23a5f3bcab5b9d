"""Where in the plane of lag and learning rate does learning collapse, and how soon?"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from analysis.figures.factors import CELLS, level_name, readable
from analysis.figures.lines import note, nothing
from analysis.figures.style import outside_legend

Floats = NDArray[np.float64]


def phase_diagram(
    table: pd.DataFrame,
    axes: Axes,
    *,
    x: str,
    y: str,
    exponent: tuple[float, float] | None = None,
    times: pd.DataFrame | None = None,
) -> None:
    """Share of the seeds that collapsed, in cells of two log axes, with the fitted boundary and slope -1.

    Args:
        table: from `tables.factors.by_two`, the lag as columns, the learning rate as index.
        exponent: of the fitted boundary log y = log y_1 - exponent log x: (y_1, exponent).
        times: updates until the collapse in each cell, in the shape of `table`; NaN where none came.
    """
    axes.set(xlabel=x, ylabel=y)
    lags, rates = np.asarray(table.columns, dtype=float), np.asarray(table.index, dtype=float)
    shown, rated = lags > 0, rates > 0
    hidden = table.notna().to_numpy().sum() - table.loc[rated, shown].notna().to_numpy().sum()
    values = table.loc[rated, shown].to_numpy(dtype=float)
    if not np.isfinite(values).any():
        nothing(axes, f"{hidden} cells at lag or rate 0, and no other" if hidden else "nothing was measured")
        return
    lags, rates = lags[shown], rates[rated]
    soon = None if times is None else times.loc[rated, shown].to_numpy(dtype=float)
    across, along = _edges(lags), _edges(rates)
    axes.set(xscale="log", yscale="log")
    mesh = axes.pcolormesh(across, along, values, cmap=CELLS, norm=Normalize(0.0, 1.0))
    mesh.set_edgecolor("none")
    colours = mpl.colormaps[CELLS]
    for (i, j), share in np.ndenumerate(values):
        if np.isfinite(share):
            late = "" if soon is None or not np.isfinite(soon[i, j]) else f"\n{soon[i, j]:,.0f}"
            axes.text(
                float(lags[j]), float(rates[i]), f"{share:.0%}{late}", ha="center", va="center",
                fontsize="small", color=readable(colours(share)), linespacing=1.0,
            )  # fmt: skip
    span = np.array([across[0], across[-1]])
    middle = float(np.exp(np.log(span).mean()))
    through = float(np.exp(np.log(rates).mean()))
    if exponent is not None:
        first, slope = exponent
        axes.plot(
            span, first * span**-slope, color="#ee3377", linewidth=2.5, label=f"fit, slope {-slope:.2f}"
        )
        through = first * middle**-slope
    axes.plot(
        span, through * (span / middle) ** -1.0, color="#ee7733", linewidth=2, linestyle=(0, (4, 2)),
        label="slope -1",
    )  # fmt: skip
    axes.set_xlim(*span)
    axes.set_ylim(along[0], along[-1])
    _name_ticks(axes, lags.tolist(), rates.tolist())
    if hidden:
        note(axes, f"{hidden} cells at lag {'0' if rated.all() else 'or rate 0'} not drawn")
    outside_legend(axes)


def _name_ticks(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """The levels themselves on both log axes, and nothing between."""
    axes.set_xticks(list(x), [level_name(level) for level in x])
    axes.set_yticks(list(y), [level_name(level) for level in y])
    axes.set_xticks([], minor=True)
    axes.set_yticks([], minor=True)


def _edges(levels: Floats) -> Floats:
    """Edges halfway between levels, on a log axis."""
    logs = np.log(levels)
    if len(logs) == 1:
        return np.asarray(np.exp(np.array([logs[0] - 0.35, logs[0] + 0.35])))
    middles = (logs[1:] + logs[:-1]) / 2
    first, last = logs[0] - (middles[0] - logs[0]), logs[-1] + (logs[-1] - middles[-1])
    return np.asarray(np.exp(np.concatenate([[first], middles, [last]])))
