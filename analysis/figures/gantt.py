"""What did each machine do, moment by moment? Busy and idle time as bars, pushes as lines, in a window.

A run has thousands of slots and hours; a picture has a dozen rows and a few batches. What is left out is
counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.figures.lines import nothing
from analysis.figures.style import COLOURS, INK, outside_legend
from analysis.measures.idle import UNACCOUNTED, clip

ROWS: Final = 12
BUSY: Final = {
    "decode": COLOURS[0],
    "prefill": COLOURS[4],
    "policy_update": COLOURS[1],
    "critic_update": COLOURS[2],
    "push": COLOURS[3],
}
OTHER: Final = COLOURS[5]
_HATCHES: Final = ("////", "....", "xxxx", "\\\\\\\\", "++++", "----", "oo", "**")


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """A window of a run, as bars."""

    window_s: tuple[float, float]
    bars: pd.DataFrame
    """resource, state, cause, start_s, end_s: clipped to the window."""
    rows: tuple[str, ...]
    """Resources from top to bottom."""
    pushes_s: tuple[float, ...]
    """When the engines got new weights."""
    left_out: int
    """Resources that have no row."""


def last_batches(updates: pd.DataFrame, *, batches: int = 6) -> tuple[float, float]:
    """A window over the last batches before the run's end, in seconds; the whole run if it has fewer.

    A batch ends where its weights are published; where none ever is, at each update's end.
    """
    ends_s = np.unique(updates["published_s"].fillna(updates["train_end_s"]).to_numpy(dtype=float))
    if len(ends_s) == 0:
        raise ValueError("a run without an update has no window to show")
    return (float(ends_s[-batches - 1]) if len(ends_s) > batches else 0.0), float(ends_s[-1])


def chart(
    intervals: pd.DataFrame, updates: pd.DataFrame, *, window_s: tuple[float, float], rows: int = ROWS
) -> Chart:
    """What the picture is drawn from.

    Args:
        rows: most resources shown. The trainer and whatever is no engine come first, then engines and slots,
            evenly picked from all of them.
    """
    names = sorted(map(str, intervals["resource"].unique()), key=_place)
    first = [name for name in names if not name.startswith("engine")][:rows]
    engines = [name for name in names if name.startswith("engine")]
    fits = min(len(engines), rows - len(first))
    picked = [engines[i] for i in np.linspace(0, len(engines) - 1, fits).round().astype(int)] if fits else []
    shown = (*first, *picked)
    own = intervals.loc[intervals["resource"].isin(shown)]
    pieces = [own.iloc[:0]]
    for (resource, state, cause), spans in own.fillna({"cause": UNACCOUNTED}).groupby(
        ["resource", "state", "cause"], sort=False
    ):
        inside = clip(spans[["start_s", "end_s"]].to_numpy(dtype=float), window_s)
        pieces.append(
            pd.DataFrame(
                {
                    "resource": resource,
                    "state": state,
                    "cause": cause,
                    "start_s": inside[:, 0],
                    "end_s": inside[:, 1],
                }
            )
        )
    published_s = np.unique(updates["published_s"].dropna().to_numpy(dtype=float))
    within = (published_s >= window_s[0]) & (published_s <= window_s[1])
    return Chart(
        window_s=window_s,
        bars=pd.concat([piece for piece in pieces if len(piece)] or pieces, ignore_index=True),
        rows=shown,
        pushes_s=tuple(published_s[within].tolist()),
        left_out=len(names) - len(shown),
    )


def gantt(drawn: Chart, axes: Axes) -> None:
    """One row a machine: full colour for work, hatching on white for each cause of idleness."""
    if not drawn.rows:
        nothing(axes, "no machine was logged")
        return
    place = {name: i for i, name in enumerate(drawn.rows)}
    kinds = drawn.bars[["state", "cause"]].drop_duplicates().sort_values(["state", "cause"])
    hatches = dict(zip(kinds.loc[kinds["state"] == "idle", "cause"], _cycled(len(kinds)), strict=False))
    handles = []
    for state, cause in kinds.itertuples(index=False):
        own = drawn.bars[(drawn.bars["state"] == state) & (drawn.bars["cause"] == cause)]
        words = str(cause).replace("_", " ")
        look: dict[str, Any]
        if state == "busy":
            look = {"facecolor": BUSY.get(cause, OTHER), "linewidth": 0.0}
        else:
            words = f"idle: {words}"
            look = {"facecolor": "none", "edgecolor": INK, "hatch": hatches[cause], "linewidth": 0.0}
        for resource, spans in own.groupby("resource", sort=False):
            axes.broken_barh(
                list(zip(spans["start_s"], spans["end_s"] - spans["start_s"], strict=True)),
                (place[str(resource)] - 0.38, 0.76),
                **look,
            )
        handles.append(Patch(label=words, **look))
    for at_s in drawn.pushes_s:
        axes.axvline(at_s, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), alpha=0.6)
    axes.set_yticks(range(len(drawn.rows)), list(drawn.rows))
    axes.set(xlim=drawn.window_s, ylim=(len(drawn.rows) - 0.5, -0.5), xlabel="seconds; dashed: new weights")
    axes.tick_params(axis="y", length=0)
    if drawn.left_out:
        axes.set_title(f"{drawn.left_out} more engines or slots not drawn", loc="right", fontsize="small")
    outside_legend(axes, handles=handles)


def _cycled(n: int) -> Sequence[str]:
    return [_HATCHES[i % len(_HATCHES)] for i in range(n)]


def _place(name: str) -> tuple[bool, list[tuple[bool, int, str]]]:
    """The trainer first; numbers in names by value, so that slot 10 follows slot 9."""
    parts = [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]
    return name != "trainer", parts
