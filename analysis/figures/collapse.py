"""Pictures of collapse as an event in time: who still stands, when it came, and what gave warning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation

from analysis.figures.factors import level_name
from analysis.figures.lines import mark_height, note, nothing
from analysis.figures.style import Look, outside_legend
from analysis.statistics.survival import kaplan_meier


def survival(outcomes: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look]) -> None:
    """Which share still stands? Kaplan-Meier with its band, and under it how many seeds are at risk.

    Args:
        outcomes: columns line, event_update, collapsed; one row a run.
    """
    outcomes = outcomes.loc[np.isfinite(outcomes["event_update"].to_numpy(dtype=float))]
    if outcomes.empty:
        nothing(axes)
        return
    end = float(outcomes["event_update"].max())
    ticks = np.linspace(0, end, 5).round()
    lines = list(outcomes.groupby("line", sort=False))
    for row, (line, own) in enumerate(lines):
        style = look[str(line)]
        broken = own["collapsed"].to_numpy(dtype=bool)
        times = own["event_update"].to_numpy(dtype=float)
        curve = kaplan_meier(times, broken)
        at = np.append(curve["time"], times.max())
        heights = {
            name: np.append(curve[name], curve[name].iloc[-1]) for name in ("surviving", "low", "high")
        }
        axes.step(
            at, heights["surviving"], where="post", color=style.colour, linestyle=style.dash,
            marker=style.marker, markersize=3, linewidth=1.5,
            label=f"{line} ({broken.sum()} of {len(own)} collapsed)",
        )  # fmt: skip
        axes.fill_between(
            at, heights["low"], heights["high"], step="post", color=style.colour, alpha=0.13, linewidth=0
        )
        for tick in ticks:
            axes.annotate(
                str((times >= tick).sum()), (tick, 0), xycoords=("data", "axes fraction"),
                xytext=(0, -44 - 12 * row), textcoords="offset points", ha="center", fontsize="small",
            )  # fmt: skip
        axes.plot(
            [-0.06], [0], marker=style.marker, color=style.colour, markersize=4, clip_on=False,
            transform=axes.transAxes + _down(axes, 40 + 12 * row), label="_",
        )  # fmt: skip
    axes.set_xticks(ticks)
    axes.set(ylim=(-0.03, 1.05), ylabel="share not collapsed")
    # The label is on top of the numbers at risk, whose height grows with the lines.
    axes.set_xlabel("update, and seeds at risk there" + "\n" * (len(lines) + 1))
    axes.grid(visible=True)
    outside_legend(axes)


def collapse_times(collapses: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look]) -> None:
    """(t_c - S) eta against the learning rate, in updates: level if their product breaks a run.

    Args:
        collapses: columns lag, learning_rate, event_update; one row a run that collapsed.
    """
    drawn = collapses.loc[collapses["event_update"] > collapses["lag"]]
    if drawn.empty:
        nothing(axes, "no collapse after the first stale data")
        return
    total = (drawn["event_update"] - drawn["lag"]) * drawn["learning_rate"]
    for lag, own in drawn.assign(total=total).groupby("lag"):
        style = look[level_name(lag)]
        rates = own["learning_rate"].to_numpy(dtype=float)
        axes.plot(
            rates, own["total"], linestyle="", marker=style.marker, color=style.colour, alpha=0.35, ms=3
        )
        middle = own.groupby("learning_rate")["total"].median()
        axes.plot(
            middle.index.to_numpy(dtype=float), middle.to_numpy(dtype=float), color=style.colour,
            linestyle=style.dash, marker=style.marker, markersize=6, label=f"lag {lag:g} (n = {len(own)})",
        )  # fmt: skip
    levels = sorted(set(drawn["learning_rate"]))
    axes.set(xscale="log", xlabel="learning rate", ylabel="updates x rate until collapse")
    axes.set_xticks(levels, [level_name(rate) for rate in levels])
    axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=0)
    if len(drawn) < len(collapses):
        note(axes, f"{len(collapses) - len(drawn)} before the first stale data not drawn")
    axes.grid(visible=True)
    outside_legend(axes)


def cosines(table: pd.DataFrame, axes: Axes, *, look: Mapping[str, Look], alarm: float) -> None:
    """Cosine of consecutive gradients on the way to a collapse, beside that of runs that never collapsed.

    Args:
        table: columns line, x (updates from the collapse, at or below 0), mean, low, high, n.
        alarm: the level that was registered.
    """
    if table["mean"].isna().all():
        nothing(axes)
        return
    for line, own in table.groupby("line", sort=False):
        style = look[str(line)]
        at = own["x"].to_numpy(dtype=float)
        axes.plot(
            at, own["mean"].to_numpy(dtype=float), color=style.colour, linestyle=style.dash,
            marker=style.marker, markevery=max(1, len(own) // 6), markersize=4, label=str(line),
        )  # fmt: skip
        low, high = own["low"].to_numpy(dtype=float), own["high"].to_numpy(dtype=float)
        axes.fill_between(at, low, high, color=style.colour, alpha=0.15, linewidth=0)
    mark_height(axes, "alarm", alarm)
    axes.set(xlabel="updates from the collapse", ylabel="gradient cosine")
    axes.grid(visible=True)
    outside_legend(axes)


def _down(axes: Axes, points: float) -> ScaledTranslation:
    """So many points below where it would be."""
    return ScaledTranslation(0, -points / 72, axes.figure.dpi_scale_trans)
