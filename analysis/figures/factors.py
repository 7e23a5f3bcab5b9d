"""Pictures of what came out at each setting of one factor, or of two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from analysis.figures.lines import finish_lines, line_with_interval, name_decades, note, nothing, seed_range
from analysis.figures.style import Look, name_rows, outside_legend
from analysis.tables.factors import logarithmic

Floats = NDArray[np.float64]
CELLS = "cividis"
"""Colours of cells: even in lightness, and the same to whoever cannot tell red from green."""


def lines_by_factor(
    table: pd.DataFrame,
    axes: Axes,
    *,
    look: Mapping[str, Look],
    x: str,
    y: str,
    levels: Mapping[str, float] | None = None,
) -> None:
    """Mean over seeds with its interval against a factor's levels, one line a line of the table.

    Args:
        table: from `tables.factors.by_factor`.
        levels: named heights to compare with, such as chance.
    """
    if table["mean"].isna().all():
        nothing(axes)
        return
    places, names = _places(table["level"])
    for line, own in table.groupby("line", sort=False):
        at = own["level"].map(places).to_numpy(dtype=float)
        line_with_interval(axes, own, at, str(line), look[str(line)])
    axes.set_xticks(list(places.values()), names)
    finish_lines(axes, x=x, y=y, levels=levels)


def lines_with_theory(
    table: pd.DataFrame, theory: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look], x: str, y: str
) -> None:
    """`lines_by_factor`, and a dotted line of theory for each of its lines, without a place in the legend.

    Args:
        table: from `tables.factors.by_factor`.
        theory: columns line, level, mean.
    """
    lines_by_factor(table, axes, look=look, x=x, y=y)
    places, _ = _places(table["level"])
    for line, own in theory.loc[theory["level"].isin(list(places))].groupby("line", sort=False):
        at = own["level"].map(places).to_numpy(dtype=float)
        height = own["mean"].to_numpy(dtype=float)
        axes.plot(at, height, color=look[str(line)].colour, linestyle=(0, (1, 2)), label="_")


def heat_map(table: pd.DataFrame, axes: Axes, *, x: str, y: str, form: str = "{:.2f}") -> None:
    """A number in every cell of two factors, and a colour for it; a cell without a run stays empty.

    Args:
        table: from `tables.factors.by_two`.
        form: how the number is written.
    """
    values = table.to_numpy(dtype=float)
    known = values[np.isfinite(values)]
    if not len(known):
        nothing(axes)
        return
    scale = Normalize(known.min(), known.max())
    # Drawn as shapes: an image inside the SVG would be blurred by the browser.
    edges = [np.arange(size + 1) - 0.5 for size in values.shape[::-1]]
    axes.pcolormesh(*edges, values, cmap=CELLS, norm=scale)
    write_cells(axes, values, scale, form)
    axes.set_xticks(range(table.shape[1]), [level_name(level) for level in table.columns])
    name_rows(axes, range(table.shape[0]), [level_name(level) for level in table.index])
    axes.set(xlabel=x, ylabel=y)


def lines_on_logs(
    table: pd.DataFrame,
    axes: Axes,
    *,
    look: Mapping[str, Look],
    x: str,
    y: str,
    slopes: Mapping[str, float] | None = None,
    fitted: Mapping[str, float] | None = None,
) -> None:
    """A quantity against a factor on two log axes, beside lines of the slopes that theory has.

    What is not positive cannot be drawn; the figure says how many points that are.

    Args:
        fitted: slope of a line of the table; it is drawn thin through the middle of its points, and named.
    """
    table = table.loc[table["mean"].notna()]
    drawn = table.loc[(table["level"] > 0) & (table["mean"] > 0)]
    if hidden := len(table) - len(drawn):
        note(axes, f"{hidden} points at 0 or below not drawn")
    axes.set(xlabel=x, ylabel=y)
    if drawn.empty:
        nothing(axes, "nothing positive was measured")
        return
    axes.set(xscale="log", yscale="log")
    for line, own in drawn.groupby("line", sort=False):
        style = look[str(line)]
        at, mean = (own[name].to_numpy(dtype=float) for name in ("level", "mean"))
        slope = (fitted or {}).get(str(line), math.nan)
        said = f", slope {slope:.2f}" if math.isfinite(slope) else ""
        axes.plot(
            at, mean, color=style.colour, linestyle="" if said else style.dash, marker=style.marker,
            markersize=5, linewidth=1.5, label=f"{line} (n = {seed_range(own['n'])}){said}",
        )  # fmt: skip
        if said:
            middle = np.exp(np.log(mean).mean() + slope * (np.log(at) - np.log(at).mean()))
            axes.plot(at, middle, color=style.colour, linestyle=style.dash, linewidth=1.2, label="_")
        low = own["low"].where(own["low"] > 0).to_numpy(dtype=float)
        axes.fill_between(
            at, low, own["high"].to_numpy(dtype=float), color=style.colour, alpha=0.15, linewidth=0
        )
    span = np.array([drawn["level"].min(), drawn["level"].max()], dtype=float)
    start = float(drawn.loc[drawn["level"] == span[0], "mean"].min())
    for (name, slope), dash in zip((slopes or {}).items(), ((0, (1, 2)), (0, (4, 3))), strict=False):
        axes.plot(span, start * (span / span[0]) ** slope, color="#888888", linestyle=dash, label=name)
    levels = sorted(set(drawn["level"]))
    axes.set_xticks(levels, [level_name(level) for level in levels])
    axes.set_xticks([], minor=True)
    name_decades(axes.yaxis, drawn["mean"].to_numpy(dtype=float))
    axes.grid(visible=True)
    outside_legend(axes)


def level_name(level: object) -> str:
    return f"{level:g}" if isinstance(level, (int, float, np.number)) else str(level)


def write_cells(axes: Axes, values: Floats, scale: Normalize, form: str) -> None:
    """Each number in its cell, in ink that can be read on the cell's colour."""
    colours = mpl.colormaps[CELLS]
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = readable(colours(scale(value)))
            axes.text(j, i, form.format(value), ha="center", va="center", fontsize="small", color=ink)


def readable(colour: Sequence[float]) -> str:
    """Ink for words on a colour."""
    red, green, blue = colour[:3]
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "#ffffff"


def _places(levels: pd.Series[Any]) -> tuple[dict[object, float], list[str]]:
    """Where on the axis each level is: at its logarithm, at itself, or one after the other; and its name.

    On a logarithmic axis, 0 stands one usual step left of the smallest level, under its own name.
    """
    distinct = sorted(set(levels), key=lambda level: (isinstance(level, str), level))
    names = [level_name(level) for level in distinct]
    if not pd.api.types.is_numeric_dtype(levels):
        return {level: float(i) for i, level in enumerate(distinct)}, names
    if not logarithmic(levels):
        return {level: float(level) for level in distinct}, names
    positive = np.log2([level for level in distinct if level > 0])
    step = float(np.diff(positive).mean())
    places = {level: float(np.log2(level)) if level > 0 else float(positive[0]) - step for level in distinct}
    return places, names
