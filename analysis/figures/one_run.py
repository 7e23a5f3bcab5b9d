"""Pictures of one run: its lag, by part and by what is counted; its queue; its lengths.

Each function fills one Axes from one table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from analysis.figures.lines import note, nothing
from analysis.figures.style import COLOURS, DASHES, INK, MARKERS, outside_legend
from analysis.measures.lag_split import PARTS
from analysis.measures.levels import Level

LAG_BINS: Final = 40
"""Most bins of a lag histogram; wider lags share a bin."""
POINTS: Final = 400
"""Most points of a line."""
NO_LAG: Final = "no lag"
_HATCHES: Final = ("", "///", "...", "xxx")


def split_histogram(split: pd.DataFrame, axes: Axes, *, predicted: float = math.nan) -> None:
    """How old was the data, of what? Share of rollouts by lag, each bar in the proportions of its parts.

    The height of a bar is the share of rollouts whose lag falls into it, its colours the share of each part
    in the updates that they aged. What has no lag has no parts, and a colour of its own.

    Args:
        split: from `lag_split.lag_split`, one population.
        predicted: mean lag by the closed form; its line stands beside that of the mean measured.
    """
    if split.empty:
        nothing(axes, "no rollout had a lag")
        return
    lag = split["lag"].to_numpy(dtype=np.int64)
    width = max(1, math.ceil((int(lag.max(initial=0)) + 1) / LAG_BINS))
    place = lag // width
    bins = int(place.max(initial=0)) + 1
    height = np.bincount(place, minlength=bins) / max(1, len(lag))
    aged = np.bincount(place, weights=lag, minlength=bins)
    middle = (np.arange(bins) + 0.5) * width - 0.5
    bottom = np.zeros(bins)
    for i, (name, words) in enumerate(PARTS.items()):
        own = np.bincount(place, weights=split[name].to_numpy(dtype=float), minlength=bins)
        part = height * np.divide(own, aged, out=np.zeros(bins), where=aged > 0)
        look: dict[str, Any] = {
            "facecolor": COLOURS[i],
            "hatch": _HATCHES[i],
            "edgecolor": "white",
            "linewidth": 0.0,
        }
        axes.bar(middle, part, width * 0.92, bottom=bottom, label=words, **look)
        bottom += part
    if (aged == 0).any():
        fresh = height - bottom
        axes.bar(middle, fresh, width * 0.92, bottom=bottom, color=COLOURS[5], label=NO_LAG)
    for name, mean, dash in (
        ("mean", float(lag.mean()), "-"),
        ("mean by the closed form", predicted, (0, (3, 2))),
    ):
        if math.isfinite(mean):
            axes.axvline(mean, color=INK, linewidth=1.2, linestyle=dash, label=f"{name} {mean:.2f}")
    bins_note = "" if width == 1 else f", in bins of {width}"
    axes.set(xlabel=f"lag of the oldest token (updates{bins_note})", ylabel="share of rollouts")
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    outside_legend(axes)


def lag_ranges(table: pd.DataFrame, axes: Axes) -> None:
    """What is lag, by what is counted and among whom? Mean, median and p99; a line from p50 to p99.

    Args:
        table: from `lag_table.lag_table`; rows without anything to count are left out.
    """
    shown = table.loc[table["n"] > 0]
    if shown.empty:
        nothing(axes, "no rollout had a lag")
        return
    populations = list(dict.fromkeys(shown["population"]))
    rows = {name: i for i, name in enumerate(dict.fromkeys(shown["weighting"]))}
    apart = 0.7 / max(1, len(populations))
    for i, population in enumerate(populations):
        own = shown.loc[shown["population"] == population]
        place = own["weighting"].map(rows).to_numpy(dtype=float) + (i - (len(populations) - 1) / 2) * apart
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        axes.hlines(
            place, own["p50"], own["p99"], color=colour, linewidth=2, linestyle=DASHES[i % len(DASHES)]
        )
        axes.plot(own["p99"], place, "|", color=colour, markersize=9)
        axes.plot(own["p50"], place, "|", color=colour, markersize=9)
        axes.plot(own["mean"], place, marker, color=colour, markersize=5, label=population)
    axes.set_yticks(
        range(len(rows)), [name.replace("oldest token of a rollout", "oldest token") for name in rows]
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set(xlabel="lag (updates); marker: mean, line: p50 to p99")
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.grid(visible=True, axis="x")
    outside_legend(axes)


def occupancy(levels: Mapping[str, Level], axes: Axes, *, window_s: tuple[float, float]) -> None:
    """How many rollouts were where? One step line a place; long runs are shown at evenly spaced moments."""
    if not levels:
        nothing(axes, "no rollout was begun")
        return
    for i, (name, level) in enumerate(levels.items()):
        own = level.within(window_s)
        times_s, values = own.times_s, own.values
        if len(times_s) > POINTS:
            times_s = np.linspace(*window_s, POINTS)
            values = level.at(times_s)
        axes.step(
            np.append(times_s, window_s[1]) / 3600,
            np.append(values, values[-1]),
            where="post",
            color=COLOURS[i],
            linestyle=DASHES[i],
            label=f"{name} (mean {level.time_average(window_s):.4g})",
        )
    axes.set(xlabel="hours", ylabel="rollouts", ylim=(0, None))
    axes.grid(visible=True)
    outside_legend(axes)


def versions(updates: pd.DataFrame, axes: Axes, *, window_s: tuple[float, float]) -> None:
    """Which version had the trainer, which the engines? Between the lines lies what is unpublished."""
    if updates.empty:
        nothing(axes, "no update was made")
        return
    for i, (who, column) in enumerate((("trainer", "train_end_s"), ("engines", "published_s"))):
        known = updates.loc[updates[column].notna()].sort_values([column, "version"], kind="stable")
        times_s, version = known[column].to_numpy(dtype=float), known["version"].to_numpy(dtype=np.int64)
        own = Level(times_s=times_s, values=np.maximum.accumulate(version)).within(window_s)
        axes.step(
            np.append(own.times_s, window_s[1]) / 3600,
            np.append(own.values, own.values[-1]),
            where="post",
            color=COLOURS[i],
            linestyle=DASHES[i],
            label=who,
        )
    axes.set(xlabel="hours", ylabel="version (updates)")
    axes.grid(visible=True)
    outside_legend(axes)


def length_curves(lengths: Mapping[str, NDArray[np.float64]], axes: Axes) -> None:
    """Are trained answers as long as generated ones? Share of rollouts no longer than x, x logarithmic.

    The largest vertical gap between two lines is their Kolmogorov-Smirnov distance. A logarithmic axis cannot
    show a length of 0, so the figure says how many it leaves out.

    Args:
        lengths: by what became of them, in tokens.
    """
    if not any(map(len, lengths.values())):
        nothing(axes, "no rollout has a length")
        return
    hidden = 0
    for i, (name, values) in enumerate(lengths.items()):
        if len(values) == 0:
            continue
        hidden += int((values <= 0).sum())
        share = np.linspace(0, 1, min(POINTS, len(values) + 1))[1:]
        at = np.quantile(values, share, method="inverted_cdf")
        axes.step(
            at[at > 0],
            share[at > 0],
            where="post",
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[i % len(DASHES)],
            label=f"{name} (mean {values.mean():,.0f})",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda tokens, _: f"{tokens:g}")
    axes.set(xlabel="length (action tokens)", ylabel="share no longer", ylim=(0, 1.02))
    if hidden:
        note(axes, f"{hidden} of length 0 not drawn")
    axes.grid(visible=True)
    outside_legend(axes)
