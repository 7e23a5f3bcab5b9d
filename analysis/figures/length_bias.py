"""Are the answers that are trained on as long as those that were generated, under each rule?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.lines import nothing
from analysis.figures.style import COLOURS, name_rows, outside_legend


def length_bias(table: pd.DataFrame, axes: Axes) -> None:
    """Mean length generated (hollow) and trained on (full) by arm, joined by a line; the ratio in words.

    Args:
        table: from `tables.length_bias`: name, generated, trained (tokens), ratio, low, high, n.
    """
    axes.set(xlabel="mean length (tokens)")
    known = table.loc[np.isfinite(table[["generated", "trained"]].to_numpy(dtype=float)).all(axis=1)]
    if known.empty:
        nothing(axes, "no rollout was trained on")
        return
    places = np.arange(len(known))
    generated, trained = known["generated"].to_numpy(dtype=float), known["trained"].to_numpy(dtype=float)
    axes.hlines(places, np.minimum(generated, trained), np.maximum(generated, trained), color="#888888")
    axes.plot(
        generated, places, marker="o", markersize=7, linestyle="", color=COLOURS[0], markerfacecolor="none",
        label="generated",
    )  # fmt: skip
    axes.plot(trained, places, marker="s", markersize=4, linestyle="", color=COLOURS[1], label="trained on")
    for place, row in zip(places, known.itertuples(), strict=True):
        interval = f" [{row.low:.3f}, {row.high:.3f}]" if np.isfinite(row.low) else ""
        axes.annotate(
            f"{row.ratio:.3f}{interval}", (max(row.generated, row.trained), place), xytext=(9, 0),
            textcoords="offset points", va="center", fontsize="small",
        )  # fmt: skip
    name_rows(axes, places, [str(name) for name in known["name"]])
    axes.set_ylim(len(known) - 0.5, -0.5)
    axes.set_xlim(0, float(max(generated.max(), trained.max())) * 1.45)
    axes.grid(visible=True, axis="x")
    outside_legend(axes)
