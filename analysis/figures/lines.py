"""Pictures of tables: each function fills one Axes from one table, and one says it in words.

Every figure that is a mean over seeds says over how many, in its legend; a falling n is written as a range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import NDArray

from analysis.figures.style import COLOURS, Look, name_rows, outside_legend

LAG_BINS = 60
"""Most bins of a lag histogram; wider lags share a bin."""


def mean_curves(
    table: pd.DataFrame,
    axes: Axes,
    *,
    look: Mapping[str, Look],
    x: str,
    y: str,
    levels: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> None:
    """Mean over seeds with its interval, one line an arm.

    Args:
        table: from `curves.curve_table`.
        x: what the horizontal axis counts, with unit.
        y: what the vertical axis shows, with unit.
        levels: named heights to compare with, such as chance.
        logarithmic: the vertical axis; what it cannot show is counted.
    """
    if table["mean"].isna().all():
        nothing(axes)
    for arm, own in table.groupby("arm", sort=False):
        line_with_interval(axes, own, own["x"].to_numpy(dtype=float), str(arm), look[str(arm)])
    if logarithmic:
        logarithmic_height(axes, table["mean"].to_numpy(dtype=float))
    # Numbers of many digits stand beside each other only if they are few.
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    finish_lines(axes, x=x, y=y, levels=levels)


def line_with_interval(
    axes: Axes, own: pd.DataFrame, at: NDArray[np.floating[Any]], name: str, style: Look
) -> None:
    """One line: `mean` of its rows with a band from `low` to `high`, and n in its label."""
    axes.plot(
        at,
        own["mean"].to_numpy(dtype=float),
        color=style.colour,
        linestyle=style.dash,
        marker=style.marker,
        markevery=max(1, len(own) // 8),
        markersize=4,
        linewidth=1.5,
        label=f"{name} (n = {seed_range(own['n'])})",
    )
    low, high = own["low"].to_numpy(dtype=float), own["high"].to_numpy(dtype=float)
    axes.fill_between(at, low, high, color=style.colour, alpha=0.15, linewidth=0)


def finish_lines(axes: Axes, *, x: str, y: str, levels: Mapping[str, float] | None) -> None:
    """Heights to compare with, labels, grid and legend."""
    for name, height in (levels or {}).items():
        mark_height(axes, name, height)
    axes.set(xlabel=x, ylabel=y)
    axes.grid(visible=True)
    outside_legend(axes)


def lag_histogram(lags: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look]) -> None:
    """How old was what was trained on? Share of rollouts by lag, one line an arm, on a logarithmic axis.

    A logarithmic axis cannot show an empty bin, so the figure says how many it leaves out.
    """
    lags = lags.loc[lags["rollouts"] > 0]
    if lags.empty:
        nothing(axes, "no rollout was trained on")
    most = int(lags["lag"].max()) if len(lags) else 0
    width = max(1, math.ceil((most + 1) / LAG_BINS))
    edges = np.arange(0, most + width + 1, width)
    hidden = 0
    for arm, own in lags.groupby("arm", sort=False):
        style = look[str(arm)]
        counts, _ = np.histogram(own["lag"].to_numpy(), bins=edges, weights=own["rollouts"].to_numpy())
        counts = counts[: np.flatnonzero(counts)[-1] + 1]
        hidden += int((counts == 0).sum())
        axes.plot(
            edges[: len(counts)],
            np.where(counts > 0, counts / counts.sum(), np.nan),
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker,
            markersize=4,
            linewidth=1.5,
            label=arm,
        )
    if len(lags):
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:g}")
    bins = "" if width == 1 else f", in bins of {width}"
    axes.set(xlabel=f"lag of the oldest token (updates{bins})", ylabel="share of trained rollouts")
    if hidden:
        note(axes, f"{hidden} empty bins not drawn")
    axes.grid(visible=True)
    outside_legend(axes)


def idle_bars(idle: pd.DataFrame, axes: Axes) -> None:
    """How idle was each machine, and mostly why? One bar an arm and kind of machine."""
    bars = list(idle.groupby(["arm", "kind"], sort=False))
    if not bars:
        nothing(axes)
    for place, ((_, kind), own) in enumerate(bars):
        share = float(own["idle"].sum())
        colour = COLOURS[0] if kind == "trainer" else COLOURS[1]
        axes.barh(place, share, color=colour, alpha=0.85, height=0.7)
        cause = str(own["cause"].to_numpy()[own["idle"].to_numpy().argmax()]).replace("_", " ")
        inside = share > 0.55
        axes.text(
            share - 0.01 if inside else share + 0.01,
            place,
            f"{share:.0%}, mostly {cause}" if len(own) > 1 else f"{share:.0%}, {cause}",
            va="center",
            ha="right" if inside else "left",
            color=("white" if kind == "trainer" else "black") if inside else None,
        )
    name_rows(axes, range(len(bars)), [f"{arm}: {kind}" for (arm, kind), _ in bars])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="idle share")


def mark_height(axes: Axes, name: str, height: float) -> None:
    """A named level to compare with."""
    axes.axhline(height, color="#888888", linewidth=1, linestyle=(0, (2, 3)), zorder=0)
    # Beside the axes: inside, a line may end where the words would be.
    axes.annotate(
        name,
        (1, height),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize="small",
    )


def logarithmic_height(axes: Axes, values: NDArray[np.floating[Any]]) -> None:
    """A logarithmic vertical axis for what was drawn, and how many of its values that hides."""
    if not (values > 0).any():
        return
    axes.set_yscale("log")
    name_decades(axes.yaxis, values)
    if hidden := int((values <= 0).sum()):
        note(axes, f"{hidden} points at 0 or below not drawn")


def name_decades(axis: Axis, values: NDArray[np.floating[Any]]) -> None:
    """Plain numbers on a logarithmic axis: powers of ten, and over few of them 2 and 5 times these too."""
    positive = values[values > 0]
    few = len(positive) == 0 or positive.max() < 100 * positive.min()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(lambda *_: "")


def nothing(axes: Axes, why: str = "nothing was measured") -> None:
    """Words in place of data: an empty picture would leave a reader to guess."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def note(axes: Axes, words: str) -> None:
    """Words above the upper right corner, where no data is: what the figure cannot show."""
    axes.text(1, 1.01, words, transform=axes.transAxes, ha="right", va="bottom", fontsize="small")


def seed_range(n: pd.Series[int]) -> str:
    """`5`, or `3-5` where runs are missing from a part of the curve."""
    low, high = int(n.min()), int(n.max())
    return str(high) if low == high else f"{low}-{high}"


def runs_in_words(n: pd.Series[int]) -> str:
    """`1 run`, `5 runs` or `3-5 runs`."""
    return f"{seed_range(n)} run{'' if n.max() == 1 else 's'}"
