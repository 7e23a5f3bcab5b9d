"""Of what is the mean lag made, and did the closed form expect it so?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.lines import nothing
from analysis.figures.style import COLOURS, INK, name_rows, outside_legend
from analysis.measures.lag_split import PARTS

_HATCHES = ("", "///", "...", "xxx")


def lag_parts(table: pd.DataFrame, axes: Axes) -> None:
    """One bar of stacked parts a row: what was measured, and under it what the closed form expects.

    Args:
        table: name, who ("measured" or "predicted"), a column a part of `PARTS`, and lag, their sum, with
            low and high (NaN without an interval); from `tables.lag_parts`.
    """
    axes.set(xlabel="mean lag of the oldest token (updates)")
    known = table.loc[np.isfinite(table["lag"].to_numpy(dtype=float))].reset_index(drop=True)
    if known.empty:
        nothing(axes, "no lag that emerged")
        return
    names = list(dict.fromkeys(known["name"]))
    places = [
        names.index(row.name_) * 2.3 + (row.who == "predicted") * 0.9
        for row in known.rename(columns={"name": "name_"}).itertuples()
    ]
    left = np.zeros(len(known))
    for i, (part, words) in enumerate(PARTS.items()):
        widths = known[part].to_numpy(dtype=float)
        bars = axes.barh(
            places, widths, 0.8, left=left, label=words, facecolor=COLOURS[i], hatch=_HATCHES[i],
            edgecolor="white", linewidth=0.0,
        )  # fmt: skip
        for bar, who in zip(bars, known["who"], strict=True):
            bar.set_alpha(0.5 if who == "predicted" else 1.0)
        left += widths
    low, high = known["low"].to_numpy(dtype=float), known["high"].to_numpy(dtype=float)
    sure = np.isfinite(low) & np.isfinite(high)
    axes.hlines(np.array(places)[sure], low[sure], high[sure], color=INK, linewidth=1.2)
    reach = float(np.nanmax(np.concatenate([left, high[sure]])))
    for place, lag, end, who in zip(places, known["lag"], np.fmax(left, high), known["who"], strict=True):
        words = f"{lag:.2f}" if who == "measured" else f"{lag:.2f} closed form"
        axes.text(end + 0.015 * reach, place, words, va="center", fontsize="small")
    heights = [np.mean([p for p, own in zip(places, known["name"], strict=True) if own == n]) for n in names]
    name_rows(axes, heights, [str(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, reach * 1.42)
    axes.tick_params(axis="y", length=0)
    outside_legend(axes)
