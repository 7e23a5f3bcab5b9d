"""Pictures of what came out at each setting of one factor, or of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from analysis.figures.lines import finish_lines, line_with_interval, note, seed_range
from analysis.figures.style import Look, outside_legend
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
        table: from `factor_tables.by_factor`.
        levels: named heights to compare with, such as chance.
    """
    places, names = _places(table["level"])
    for line, own in table.groupby("line", sort=False):
        at = own["level"].map(places).to_numpy(dtype=float)
        line_with_interval(axes, own, at, str(line), look[str(line)])
    axes.set_xticks(list(places.values()), names)
    finish_lines(axes, x=x, y=y, levels=levels)


def heat_map(table: pd.DataFrame, axes: Axes, *, x: str, y: str, form: str = "{:.2f}") -> None:
    """A number in every cell of two factors, and a colour for it; a cell without a run stays empty.

    Args:
        table: from `factor_tables.by_two`.
        form: how the number is written.
    """
    values = table.to_numpy(dtype=float)
    known = values[np.isfinite(values)]
    scale = Normalize(*((known.min(), known.max()) if len(known) else (0.0, 1.0)))
    # Drawn as shapes: an image inside the SVG would be blurred by the browser.
    edges = [np.arange(size + 1) - 0.5 for size in values.shape[::-1]]
    axes.pcolormesh(*edges, values, cmap=CELLS, norm=scale)
    write_cells(axes, values, scale, form)
    axes.set_xticks(range(table.shape[1]), [level_name(level) for level in table.columns])
    axes.set_yticks(range(table.shape[0]), [level_name(level) for level in table.index])
    axes.set(xlabel=x, ylabel=y)


def phase_diagram(
    table: pd.DataFrame, axes: Axes, *, x: str, y: str, exponent: tuple[float, float] | None = None
) -> None:
    """Share of the seeds that collapsed, in cells of two log axes, with the fitted boundary and slope -1.

    Args:
        table: from `factor_tables.by_two`, the lag as columns, the learning rate as index.
        exponent: of the fitted boundary log y = log y_1 - exponent log x: (y_1, exponent).
    """
    lags = np.asarray(table.columns, dtype=float)
    positive = lags[lags > 0].tolist()
    rates = np.asarray(table.index, dtype=float)
    values = table.to_numpy(dtype=float)[:, lags > 0]
    scale = Normalize(0.0, 1.0)
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    mesh = axes.pcolormesh(
        _edges(np.array(positive)),
        _edges(rates),
        values,
        cmap=CELLS,
        norm=scale,
    )
    mesh.set_edgecolor("none")
    colours = mpl.colormaps[CELLS]
    for (i, j), share in np.ndenumerate(values):
        if np.isfinite(share):
            axes.text(
                positive[j], float(rates[i]), f"{share:.0%}", ha="center", va="center", fontsize="small",
                color=_readable(colours(scale(share))),
            )  # fmt: skip
    span = np.array([_edges(np.array(positive))[0], _edges(np.array(positive))[-1]])
    middle = np.exp(np.log(span).mean())
    if exponent is not None:
        first, slope = exponent
        axes.plot(
            span, first * span**-slope, color="#ee3377", linewidth=2.5, label=f"fit, slope {-slope:.2f}"
        )
        through = first * middle**-slope
    else:
        through = float(np.exp(np.log(rates).mean()))
    axes.plot(
        span, through * (span / middle) ** -1.0, color="#ee7733", linewidth=2, linestyle=(0, (4, 2)),
        label="slope -1",
    )  # fmt: skip
    axes.set_xlim(*span)
    axes.set_ylim(_edges(rates)[0], _edges(rates)[-1])
    name_ticks(axes, positive, rates.tolist())
    hidden = table.shape[1] - len(positive)
    if hidden:
        note(axes, f"{hidden * len(rates)} cells at lag 0 not drawn")
    outside_legend(axes)


def lines_on_logs(
    table: pd.DataFrame,
    axes: Axes,
    *,
    look: Mapping[str, Look],
    x: str,
    y: str,
    slopes: Mapping[str, float] | None = None,
) -> None:
    """A quantity against a factor on two log axes, beside lines of the slopes that theory has.

    What is not positive cannot be drawn; the figure says how many points that are.
    """
    axes.set(xscale="log", yscale="log")
    drawn = table.loc[(table["level"] > 0) & (table["mean"] > 0)]
    for line, own in drawn.groupby("line", sort=False):
        style = look[str(line)]
        at = own["level"].to_numpy(dtype=float)
        axes.plot(
            at, own["mean"].to_numpy(dtype=float), color=style.colour, linestyle=style.dash,
            marker=style.marker, markersize=5, linewidth=1.5, label=f"{line} (n = {seed_range(own['n'])})",
        )  # fmt: skip
        low = own["low"].where(own["low"] > 0).to_numpy(dtype=float)
        axes.fill_between(
            at, low, own["high"].to_numpy(dtype=float), color=style.colour, alpha=0.15, linewidth=0
        )
    if len(drawn):
        span = np.array([drawn["level"].min(), drawn["level"].max()], dtype=float)
        start = float(drawn.loc[drawn["level"] == span[0], "mean"].min())
        for (name, slope), dash in zip((slopes or {}).items(), ((0, (1, 2)), (0, (4, 3))), strict=False):
            axes.plot(span, start * (span / span[0]) ** slope, color="#888888", linestyle=dash, label=name)
        levels = sorted(set(drawn["level"]))
        axes.set_xticks(levels, [level_name(level) for level in levels])
        axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(lambda *_: "")
    hidden = len(table) - len(drawn)
    if hidden:
        note(axes, f"{hidden} points at 0 or below not drawn")
    axes.set(xlabel=x, ylabel=y)
    axes.grid(visible=True)
    outside_legend(axes)


def level_name(level: object) -> str:
    return f"{level:g}" if isinstance(level, (int, float, np.number)) else str(level)


def write_cells(axes: Axes, values: Floats, scale: Normalize, form: str) -> None:
    """Each number in its cell, in ink that can be read on the cell's colour."""
    colours = mpl.colormaps[CELLS]
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = _readable(colours(scale(value)))
            axes.text(j, i, form.format(value), ha="center", va="center", fontsize="small", color=ink)


def name_ticks(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """The levels themselves on both log axes, and nothing between."""
    axes.set_xticks(list(x), [level_name(level) for level in x])
    axes.set_yticks(list(y), [level_name(level) for level in y])
    axes.set_xticks([], minor=True)
    axes.set_yticks([], minor=True)


def _readable(colour: Sequence[float]) -> str:
    red, green, blue = colour[:3]
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else "#ffffff"


def _edges(levels: Floats) -> Floats:
    """Edges halfway between levels, on a log axis."""
    logs = np.log(levels)
    if len(logs) == 1:
        return np.asarray(np.exp(np.array([logs[0] - 0.35, logs[0] + 0.35])))
    middles = (logs[1:] + logs[:-1]) / 2
    first, last = logs[0] - (middles[0] - logs[0]), logs[-1] + (logs[-1] - middles[-1])
    return np.asarray(np.exp(np.concatenate([[first], middles, [last]])))


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
