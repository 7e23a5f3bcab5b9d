"""Which tokens lost their gradient, by the width of the band and the lag, and by their advantage's sign?"""

from __future__ import annotations

from typing import Final

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from analysis.figures.factors import CELLS, level_name, readable
from analysis.figures.lines import nothing
from analysis.figures.style import name_rows

HALVES: Final = ("positive", "negative")
"""From top to bottom of a cell."""


def split_cells(table: pd.DataFrame, axes: Axes, *, x: str, y: str) -> None:
    """A share in every cell of two factors: above for positive advantages, below for negative ones.

    Where the log does not tell signs apart, a cell is whole. The colours run from 0 to the largest share, as
    in all cells; a cell without a run stays empty.

    Args:
        table: from `tables.masks.masks_by_sign`.
    """
    axes.set(xlabel=x, ylabel=y)
    known = table.loc[np.isfinite(table["mean"].to_numpy(dtype=float))]
    if known.empty:
        nothing(axes)
        return
    columns, rows = sorted(set(known["x"])), sorted(set(known["y"]))
    scale = Normalize(0.0, max(float(known["mean"].max()), 1e-9))
    colours = mpl.colormaps[CELLS]
    whole = not set(known["sign"]) & set(HALVES)
    for cell in known.itertuples():
        left, below = columns.index(cell.x) - 0.5, rows.index(cell.y) - 0.5
        height = 1.0 if whole else 0.5
        bottom = below + (0.0 if whole or cell.sign == HALVES[1] else height)
        colour = colours(scale(cell.mean))
        # Shapes, not an image: the browser would blur that.
        axes.add_patch(
            mpl.patches.Rectangle(
                (left, bottom), 1.0, height, facecolor=colour, edgecolor="none", linewidth=0
            )
        )
        axes.text(
            left + 0.5, bottom + height / 2, f"{'' if whole else _SIGNS[cell.sign]}{_share(cell.mean)}",
            ha="center", va="center", fontsize="small", color=readable(colour),
        )  # fmt: skip
    for edge in np.arange(len(rows) + 1) - 0.5:
        axes.axhline(edge, color="#ffffff", linewidth=2)
    for edge in np.arange(len(columns) + 1) - 0.5:
        axes.axvline(edge, color="#ffffff", linewidth=2)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(-0.5, len(rows) - 0.5))
    axes.set_xticks(range(len(columns)), [level_name(level) for level in columns])
    name_rows(axes, range(len(rows)), [level_name(level) for level in rows])
    axes.tick_params(length=0)
    if not whole:
        axes.set_title("share of all tokens; above A > 0, below A < 0", loc="left", fontsize="small")


_SIGNS: Final = {"positive": "+ ", "negative": "\u2212 "}


def _share(value: float) -> str:
    return (
        f"{value:.0%}"
        if value >= 0.0995 or value == 0
        else f"{value:.2g}"
        if value < 0.001
        else f"{value:.1%}"
    )
