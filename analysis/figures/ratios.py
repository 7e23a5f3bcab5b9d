"""How far from 1 are the ratios of the tokens, out to the last in a thousand?"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.lines import name_decades, note, nothing, seed_range
from analysis.figures.style import Look, outside_legend


def tail(table: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look]) -> None:
    """Share of tokens whose absolute log-ratio exceeds x, on log axes; the line of a ratio of 2 is dotted.

    Points are at the shares of the recorded quantiles, with the interval of the mean quantile over seeds. A
    quantile of 0 (no drift) has no place on the axis; the figure says how many those are.

    Args:
        table: from `tables.ratio_tail.tail_table`.
    """
    axes.set(xlabel="|log ratio| of a token (nats)", ylabel="share beyond")
    drawn = table.loc[table["mean"] > 0]
    if hidden := len(table) - len(drawn):
        note(axes, f"{hidden} quantiles at 0 not drawn")
    if drawn.empty:
        nothing(axes, "no ratio but 1" if len(table) else "nothing was measured")
        return
    axes.set(xscale="log", yscale="log")
    for line, own in drawn.groupby("line", sort=False):
        style = look[str(line)]
        at, share = own["mean"].to_numpy(dtype=float), own["beyond"].to_numpy(dtype=float)
        axes.plot(
            at, share, color=style.colour, linestyle=style.dash, marker=style.marker, markersize=4,
            linewidth=1.5, label=f"{line} (n = {seed_range(own['n'])})",
        )  # fmt: skip
        low = np.maximum(own["low"].to_numpy(dtype=float), 1e-12)
        axes.hlines(share, low, own["high"].to_numpy(dtype=float), color=style.colour, linewidth=1, alpha=0.7)
    axes.axvline(math.log(2), color="#888888", linewidth=1, linestyle=(0, (1, 2)), label="ratio 2 or 1/2")
    shares = sorted(set(drawn["beyond"]))
    axes.set_yticks(shares, [f"{share:.3g}" for share in shares])
    axes.set_yticks([], minor=True)
    name_decades(axes.xaxis, drawn["mean"].to_numpy(dtype=float))
    axes.grid(visible=True)
    outside_legend(axes)
