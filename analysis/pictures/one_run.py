"""Which figures does the page of a single run show, and what does each say in words?"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd

from analysis.figures import one_run as run_figures
from analysis.figures.gantt import chart, gantt, last_batches
from analysis.figures.style import drawing
from analysis.measures.lag import of_status
from analysis.measures.lag_split import PARTS, lag_split, split_means
from analysis.measures.lag_table import run_lag_table
from analysis.measures.lengths import generated, ks_distance
from analysis.measures.levels import places
from analysis.measures.load import load, load_outcomes, predicted
from analysis.measures.throughput import window_s
from analysis.pictures.picture import Picture
from analysis.pictures.pipeline import parts_picture
from analysis.runs import Run
from analysis.tables.lag_parts import lag_parts_table

GANTT_BATCHES = 6


def run_pictures(run: Run) -> list[Picture]:
    """Every figure that the run has data for."""
    shown = [
        *_splits(run),
        _parts(run),
        _ranges(run),
        _gantt(run),
        _queue(run),
        _versions(run),
        _lengths(run),
    ]
    return [picture for picture in shown if picture is not None]


def _splits(run: Run) -> list[Picture]:
    """One for what was trained on, one for what was dropped if anything was."""
    split = lag_split(run.rollouts, run.updates)
    means = split_means(split).set_index("population")
    found = load(run)
    expected = predicted(found)["lag"] if found else math.nan
    shown = []
    for population in ("trained", "dropped"):
        if population not in means.index:
            continue
        row = means.loc[population]
        parts = ", ".join(f"{words} {row[name]:.2f}" for name, words in PARTS.items())
        by_theory = expected if population == "trained" else math.nan
        said = f" The closed form expects {by_theory:.2f}." if math.isfinite(by_theory) else ""
        own = of_status(split, (population,))
        shown.append(
            Picture(
                title=f"Where the lag of {population} rollouts came from",
                drawing=drawing(
                    partial(run_figures.split_histogram, own, predicted=by_theory), name=f"split-{population}"
                ),
                alt=f"Stacked histogram of lag. Mean {row['lag']:.2f} updates: {parts}.{said}",
                caption=f"{len(own):,} rollouts. Height: share with that lag; colours: what it is made of.",
            )
        )
    return shown


def _parts(run: Run) -> Picture | None:
    split = lag_split(run.rollouts, run.updates)
    row = pd.DataFrame([{"run": "this run", **load_outcomes(run, split)}])
    table = lag_parts_table(row, by="run", rng=np.random.default_rng(0))
    return parts_picture(table, name="parts") if len(table) else None


def _ranges(run: Run) -> Picture | None:
    table = run_lag_table(run)
    if table.empty:
        return None
    said = "; ".join(
        f"{row.population}, {row.weighting}: mean {row.mean:.2f}, p99 {row.p99:.0f}"
        for row in table.itertuples()
    )
    return Picture(
        title="Lag by what is counted, and among whom",
        drawing=drawing(partial(run_figures.lag_ranges, table), name="ranges"),
        alt=f"Mean, median and p99 of lag in updates. {said}.",
        caption="The same run: one number called lag could be any of these.",
    )


def _gantt(run: Run) -> Picture | None:
    if run.intervals.empty:
        return None
    window = last_batches(run.updates, batches=GANTT_BATCHES)
    drawn = chart(run.intervals, run.updates, window_s=window)
    left_out = f"; {drawn.left_out} more not drawn" if drawn.left_out else ""
    return Picture(
        title="What the machines did",
        drawing=drawing(partial(gantt, drawn), name="gantt", height_in=1.6 + 0.2 * len(drawn.rows)),
        alt=f"Gantt chart of {', '.join(drawn.rows)} from {window[0]:.0f} to {window[1]:.0f} s{left_out}.",
        caption=f"The last {GANTT_BATCHES} batches. Full colour: work; hatched: idle, by cause.",
    )


def _queue(run: Run) -> Picture:
    window, levels = window_s(run), places(run.rollouts)
    said = ", ".join(f"{level.time_average(window):.4g} {name}" for name, level in levels.items())
    return Picture(
        title="Where the rollouts were",
        drawing=drawing(partial(run_figures.occupancy, levels, window_s=window), name="queue"),
        alt=f"Rollouts over time by place; on average {said}.",
        caption="Waiting: for slower members of their group. Means are over time.",
    )


def _versions(run: Run) -> Picture | None:
    if run.updates["published_s"].isna().all():
        return None
    window = last_batches(run.updates, batches=GANTT_BATCHES)
    newest = int(run.updates["version"].max())
    return Picture(
        title="Versions of trainer and engines",
        drawing=drawing(partial(run_figures.versions, run.updates, window_s=window), name="versions"),
        alt=f"Version over time, of the trainer and on the engines; the run ends at version {newest}.",
        caption=f"The last {GANTT_BATCHES} batches.",
    )


def _lengths(run: Run) -> Picture:
    tokens = run.rollouts["action_tokens"].to_numpy(dtype=float)
    status = run.rollouts["status"]
    chosen = {
        "generated": generated(run.rollouts),
        "trained": status == "trained",
        "dropped": status == "dropped",
    }
    lengths = {name: tokens[members.to_numpy()] for name, members in chosen.items() if members.any()}
    nothing = np.array([])
    distance = ks_distance(lengths.get("trained", nothing), lengths.get("generated", nothing))
    said = ", ".join(f"{name} {values.mean():.0f}" for name, values in lengths.items())
    return Picture(
        title="Generated and trained lengths",
        drawing=drawing(partial(run_figures.length_curves, lengths), name="lengths"),
        alt=f"Cumulative shares by length. Mean tokens: {said}; KS distance of trained {distance:.3f}.",
        caption="Share of rollouts no longer than a length.",
    )
