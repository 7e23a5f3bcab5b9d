"""Which arm survives? One row an arm: age of data, idleness, hours, accuracy, collapse; n is always shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pandas as pd
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from analysis.statistics.intervals import Interval, bootstrap_interval
from analysis.statistics.survival import median_time
from analysis.tables.numbers import number


def verdict_table(outcomes: pd.DataFrame, *, rng: np.random.Generator) -> pd.DataFrame:
    """Outcomes summarised by arm, as numbers; see `MEASURES` for how they read.

    Args:
        outcomes: one row a run (`analysis.measures.outcomes`); arms come in the order of first appearance.
        rng: of the bootstrap over seeds.
    """
    rows = [_row(own, rng) for _, own in outcomes.groupby("arm", sort=False)]
    return pd.DataFrame(rows).set_index("arm")


def _row(own: pd.DataFrame, rng: np.random.Generator) -> dict[str, object]:
    final = _interval(own["final_score"], rng)
    reached = own["reached_target"].to_numpy(dtype=bool)
    hours = own["hours_to_target"].fillna(own["hours"]).to_numpy(dtype=float)
    means = {
        name: float(own[name].mean())
        for name in (
            "mean_lag",
            "p99_lag",
            "trainer_idle",
            "engine_idle",
            "hours",
            "masked_fraction",
            "flat_fraction",
        )
    }
    imposed = bool((own["clock"] == "imposed").all())
    if imposed:  # there were no machines that could have waited, and no hours
        means |= dict.fromkeys(("trainer_idle", "engine_idle", "hours"), math.nan)
    return {
        "arm": own["arm"].iloc[0],
        "imposed": imposed,
        "n": len(own),
        **means,
        "final_score": final.estimate,
        "final_score_low": final.low,
        "final_score_high": final.high,
        "collapsed": int(own["collapsed"].sum()),
        "measured": int((own["fate"] != "not measured").sum()),
        "refused": int((own["refused_updates"] > 0).sum()),
        "reached": int(reached.sum()),
        "median_hours_to_target": median_time(hours, reached),
    }


def _interval(values: pd.Series[float], rng: np.random.Generator) -> Interval:
    if values.isna().all():
        nothing = math.nan
        return Interval(estimate=nothing, low=nothing, high=nothing, n=0, confidence=0.95, method="none")
    return bootstrap_interval(values.to_numpy(dtype=float), rng=rng)


Row = pd.Series
SCORE: Final = "final score"
MANY_ARMS: Final = 8
"""More than these do not fit side by side, in a terminal or in a figure with a line an arm."""
MEASURES: Final[dict[str, Callable[[Row], str]]] = {
    "lag, mean (updates)": lambda row: number(row["mean_lag"], "{:.2f}"),
    "lag, p99 (updates)": lambda row: number(row["p99_lag"], "{:.1f}"),
    "trainer idle": lambda row: number(row["trainer_idle"], "{:.0%}"),
    "engine idle": lambda row: number(row["engine_idle"], "{:.0%}"),
    "hours": lambda row: number(row["hours"], "{:.2f}"),
    SCORE: lambda row: final_score(row),
    "collapsed": lambda row: f"{row['collapsed']:.0f} of {row['measured']:.0f}" if row["measured"] else "-",
    "update refused": lambda row: f"{row['refused']:.0f} of {row['n']:.0f}" if row["measured"] else "-",
    "masked tokens": lambda row: number(row["masked_fraction"], "{:.2%}"),
    "flat tokens": lambda row: number(row["flat_fraction"], "{:.2%}"),
    "to target": lambda row: to_target(row),
    "seeds": lambda row: f"{row['n']:.0f}",
}
"""How each measure of the table reads, in plain ASCII: it must survive any terminal."""


def final_score(row: Row) -> str:
    """Mean over seeds, with the interval where there is one."""
    if math.isnan(row["final_score"]) or math.isnan(row["final_score_low"]):
        return number(row["final_score"], "{:.3f}")
    return f"{row['final_score']:.3f} [{row['final_score_low']:.3f}, {row['final_score_high']:.3f}]"


def to_target(row: Row) -> str:
    """Median time, unreached seeds counting as later than any; and how many seeds got there.

    Hours; with an imposed lag, whose clock counts updates as seconds, updates.
    """
    if not row["measured"]:
        return "-"
    hours = row["median_hours_to_target"]
    passed = f"{3600 * hours:.0f} updates" if row["imposed"] else f"{hours:.2f} h"
    when = "not reached" if math.isinf(hours) else passed
    return f"{when} ({row['reached']:.0f} of {row['n']:.0f})"


def cells(table: pd.DataFrame, *, score: str = "score") -> pd.DataFrame:
    """The table in words: arms as rows, measures as columns; a measure that no arm has is left out.

    Args:
        score: what the score is called, such as accuracy.
    """
    words = pd.DataFrame(
        {name: [read(row) for _, row in table.iterrows()] for name, read in MEASURES.items()},
        index=table.index,
    )
    known = words.loc[:, (words != "-").any()]
    return known.rename(columns={SCORE: f"final {score.replace('_', ' ')}"})


def to_rich(table: pd.DataFrame, *, score: str = "score", width: int = 80, encoding: str = "utf-8") -> Group:
    """The table for a terminal, folded into blocks that fit the width.

    A few arms stand across, with measures down; many arms stand down.

    Args:
        table: from `verdict_table`.
        score: what the score is called.
        width: columns of the terminal.
        encoding: of its output; what an arm's name has beyond it is escaped.
    """
    words = cells(table, score=score)
    words.index = pd.Index(
        [str(arm).encode(encoding, "backslashreplace").decode(encoding) for arm in words.index]
    )
    if len(words) <= MANY_ARMS:
        words = words.T
    first = max(len(str(name)) for name in words.index)
    titles = [str(title) for title in words.columns]
    widths = [
        max(len(title), *(len(cell) for cell in words.iloc[:, place])) for place, title in enumerate(titles)
    ]
    blocks: list[list[int]] = []
    used = width + 1
    for arm, needed in enumerate(widths):
        if used + needed + 3 > width:
            blocks.append([])
            used = first + 4
        blocks[-1].append(arm)
        used += needed + 3
    return Group(*(_block(words.iloc[:, block], [titles[i] for i in block]) for block in blocks))


def _block(words: pd.DataFrame, titles: Sequence[str]) -> Table:
    block = Table(box=box.ASCII, show_edge=True, pad_edge=True)
    block.add_column("")
    for title in titles:
        # Text, not str: an arm named [red] is a name, not markup
        block.add_column(Text(title, overflow="fold"), justify="right", overflow="fold")
    for name, row in words.iterrows():
        block.add_row(Text(str(name)), *(Text(cell) for cell in row))
    return block
