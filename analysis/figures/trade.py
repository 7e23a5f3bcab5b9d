"""What does throughput cost in age, and what does the load make of it?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.lines import nothing
from analysis.figures.style import COLOURS, Look, outside_legend


def frontier(table: pd.DataFrame, axes: Axes, *, y: str, look: Mapping[str, Look] | None = None) -> None:
    """Throughput against mean lag, a point a setting with its interval in both; a line joins the frontier.

    A setting on the frontier is full, one that another beats in both is hollow.

    Args:
        table: from `tables.frontier`: name, lag, lag_low, lag_high, throughput, throughput_low,
            throughput_high, n, best (on the frontier).
        look: of each name; without it (many settings) the points of the frontier are named in the picture.
    """
    axes.set(xlabel="mean lag (updates)", ylabel=y)
    known = table.loc[np.isfinite(table[["lag", "throughput"]].to_numpy(dtype=float)).all(axis=1)]
    if known.empty:
        nothing(axes)
        return
    along = known.loc[known["best"]].sort_values("lag")
    axes.plot(along["lag"], along["throughput"], color="#888888", linewidth=1, label="frontier", zorder=1)
    for point in known.itertuples():
        style = look[str(point.name)] if look else Look(colour=COLOURS[0], dash="-", marker="o")
        axes.errorbar(
            point.lag, point.throughput,
            xerr=_beside(point.lag, point.lag_low, point.lag_high),
            yerr=_beside(point.throughput, point.throughput_low, point.throughput_high),
            color=style.colour, marker=style.marker, markersize=6, linestyle="", elinewidth=1,
            markerfacecolor=style.colour if point.best else "none",
            label=f"{point.name} (n = {point.n})" if look else "_",
        )  # fmt: skip
        if not look and point.best:
            # Nothing is as fast and fresher, so above to the left is room.
            axes.annotate(
                str(point.name), (point.lag, point.throughput), xytext=(-5, 2), textcoords="offset points",
                fontsize="small", ha="right", va="bottom",
            )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.margins(x=0.12 if look else 0.2)
    axes.grid(visible=True)
    outside_legend(axes)


def lag_by_load(points: pd.DataFrame, curves: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look]) -> None:
    """Mean lag against rho, in the generation times of a batch: measured as points, the closed form as lines.

    Args:
        points: from `tables.load.lag_by_load`: line, rho, rho_low, rho_high, lag, low, high, n.
        curves: line, rho, lag: the closed form (`tables.load.expected`).
    """
    axes.set(xlabel="rho (rollouts made / rollouts that could be trained)", ylabel="mean lag (updates)")
    points = points.loc[np.isfinite(points["lag"].to_numpy(dtype=float))]
    if points.empty:
        nothing(axes, "no run has a load and a lag that emerged")
        return
    for line, own in curves.groupby("line", sort=False):
        style = look[str(line)]
        axes.plot(own["rho"], own["lag"], color=style.colour, linestyle=style.dash, linewidth=1.2, label="_")
    for line, own in points.groupby("line", sort=False):
        style = look[str(line)]
        lag = own["lag"].to_numpy(dtype=float)
        spans = [_beside(*row) for row in zip(lag, own["low"], own["high"], strict=True)]
        axes.errorbar(
            own["rho"], lag, yerr=np.hstack([[[0.0], [0.0]] if span is None else span for span in spans]),
            color=style.colour, marker=style.marker, markersize=5, linestyle="", elinewidth=1,
            label=f"{line} ({len(own)} settings)" if len(own) > 1 else str(line),
        )  # fmt: skip
    axes.axvline(1.0, color="#888888", linewidth=1, linestyle=(0, (1, 2)), label="rho = 1")
    axes.plot([], [], color="#888888", linewidth=1.2, label="closed form")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(visible=True)
    outside_legend(axes)


def _beside(middle: float, low: float, high: float) -> list[list[float]] | None:
    """Lengths of an error bar to both sides; None without an interval."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return [[max(0.0, middle - low)], [max(0.0, high - middle)]]
