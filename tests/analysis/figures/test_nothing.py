"""A figure of no row, or of nothing but NaN, says so; of one row it is drawn."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures import (
    collapse,
    factors,
    length_bias,
    lines,
    masks,
    one_run,
    parts,
    phase,
    ratios,
    trade,
)
from analysis.figures.gantt import chart, gantt
from analysis.figures.style import looks, svg
from analysis.measures.lag_split import PARTS

A = looks(["a", "4"])
CURVE = pd.DataFrame({"arm": ["a"], "x": [1.0], "mean": [0.5], "low": [np.nan], "high": [np.nan], "n": [1]})
LINE = CURVE.rename(columns={"arm": "line", "x": "level"})
CELL = pd.DataFrame([[0.5]], index=[1e-3], columns=[4])
RUN = pd.DataFrame(
    {"line": ["a"], "lag": [4], "learning_rate": [1e-3], "event_update": [40.0], "collapsed": [True]}
)
SPLIT = pd.DataFrame({part: [1] for part in PARTS} | {"lag": [4]})
RANGE = pd.DataFrame(
    {"population": ["trained"], "weighting": ["token"], "n": [1], "mean": [1.0], "p50": [1.0], "p99": [1.0]}
)
UPDATE = pd.DataFrame({"version": [1], "train_end_s": [10.0], "published_s": [10.0]})
SETTING = pd.DataFrame(
    {f"{name}{end}": [1.0] for name in ("lag", "throughput") for end in ("", "_low", "_high")}
).assign(name="a", n=1, best=True)
LAGS = pd.DataFrame({"arm": ["a"], "lag": [2], "rollouts": [3]})
IDLE = pd.DataFrame({"arm": ["a"], "kind": ["trainer"], "cause": ["push"], "idle": [0.2]})
LOAD = pd.DataFrame({"line": ["a"], "rho": [0.5], "lag": [2.0], "low": [np.nan], "high": [np.nan], "n": [1]})
SPAN = pd.DataFrame(
    {"resource": ["trainer"], "state": ["busy"], "cause": ["push"], "start_s": [0.0], "end_s": [9.0]}
)

FIGURES = {
    "mean_curves": (partial(lines.mean_curves, look=A, x="update", y="score"), CURVE),
    "lag_histogram": (partial(lines.lag_histogram, look=A), LAGS),
    "idle_bars": (lines.idle_bars, IDLE),
    "lines_by_factor": (partial(factors.lines_by_factor, look=A, x="lag", y="score"), LINE),
    "lines_on_logs": (partial(factors.lines_on_logs, look=A, x="lag", y="KL", slopes={"one": 1.0}), LINE),
    "heat_map": (partial(factors.heat_map, x="lag", y="rate"), CELL),
    "phase_diagram": (partial(phase.phase_diagram, x="lag", y="rate"), CELL),
    "survival": (partial(collapse.survival, look=A), RUN),
    "collapse_times": (partial(collapse.collapse_times, look=A), RUN),
    "cosines": (partial(collapse.cosines, look=A, alarm=0.3), LINE.rename(columns={"level": "x"})),
    "split_cells": (
        partial(masks.split_cells, x="lag", y="eps"),
        pd.DataFrame({"x": [4], "y": [0.2], "sign": ["positive"], "mean": [0.1]}),
    ),
    "tail": (partial(ratios.tail, look=A), LINE.rename(columns={"level": "beyond"})),
    "frontier": (partial(trade.frontier, y="rate"), SETTING),
    "lag_by_load": (
        lambda table, axes: trade.lag_by_load(table, table, axes, look=A),
        LOAD,
    ),
    "lag_parts": (
        parts.lag_parts,
        SPLIT.assign(name="a", who="measured", low=np.nan, high=np.nan, n=1),
    ),
    "length_bias": (
        length_bias.length_bias,
        SETTING.assign(generated=9.0, trained=8.0, ratio=0.9, low=np.nan, high=np.nan),
    ),
    "split_histogram": (one_run.split_histogram, SPLIT),
    "lag_ranges": (one_run.lag_ranges, RANGE),
    "versions": (partial(one_run.versions, window_s=(0.0, 20.0)), UPDATE),
    "length_curves": (lambda table, axes: one_run.length_curves({"a": table["x"].to_numpy()}, axes), CURVE),
    "gantt": (lambda table, axes: gantt(chart(table, UPDATE, window_s=(0.0, 9.0)), axes), SPAN),
}  # fmt: skip
HAVE_NO_NAN = (
    "lag_histogram",
    "idle_bars",
    "split_histogram",
    "lag_ranges",
    "versions",
    "length_curves",
    "gantt",
)


def drawn(name: str, table: pd.DataFrame):
    figure = Figure()
    axes = figure.add_subplot()
    draw, _ = FIGURES[name]
    draw(table, axes)
    figure.canvas.draw()
    return axes


@pytest.mark.parametrize("name", FIGURES)
def test_one_row_is_drawn_without_a_word_of_absence(name):
    draw, table = FIGURES[name]
    axes = drawn(name, table)
    assert axes.has_data() or axes.patches
    assert "<svg" in svg(partial(draw, table), name=name)


@pytest.mark.parametrize("name", FIGURES)
def test_no_row_is_said_in_words(name):
    axes = drawn(name, FIGURES[name][1].iloc[:0])
    assert any(text.get_text().startswith(("no", "0 cells")) for text in axes.texts)


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in HAVE_NO_NAN])
def test_nothing_but_nan_is_said_in_words(name):
    table = FIGURES[name][1]
    numbers = [c for c in ("mean", "event_update", "lag", "generated") if c in table and c != "level"]
    empty = table.astype(dict.fromkeys(numbers, float)).assign(**dict.fromkeys(numbers, np.nan))
    axes = drawn(name, empty if numbers else table * np.nan)
    assert any(text.get_text().startswith("no") for text in axes.texts)


def test_no_places_are_said_in_words():
    axes = Figure().add_subplot()
    one_run.occupancy({}, axes, window_s=(0.0, 1.0))
    assert [text.get_text() for text in axes.texts] == ["no rollout was begun"]
