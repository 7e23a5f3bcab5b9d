import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures import length_bias as length_figures
from analysis.figures import parts as part_figures
from analysis.figures import trade as trade_figures
from analysis.figures.style import looks
from analysis.measures.lag_split import PARTS


@pytest.fixture
def axes():
    return Figure().add_subplot()


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.figure.legends[0].get_texts()]


POINTS = pd.DataFrame(
    {"name": ["a", "b", "c"], "lag": [1.0, 4.0, 5.0], "throughput": [10.0, 30.0, 20.0], "n": 3}
).assign(
    lag_low=[0.5, 3.0, np.nan], lag_high=[2.0, 4.5, np.nan], throughput_low=9.0, throughput_high=31.0,
    best=[True, True, False],
)  # fmt: skip


def test_the_frontier_joins_what_nothing_beats_and_the_others_are_hollow(axes):
    trade_figures.frontier(POINTS, axes, y="updates an hour", look=looks(["a", "b", "c"]))
    joined = next(line for line in axes.lines if line.get_label() == "frontier")
    assert joined.get_xydata().tolist() == [[1.0, 10.0], [4.0, 30.0]]
    assert legend(axes) == ["frontier", "a (n = 3)", "b (n = 3)", "c (n = 3)"]
    filled = [container[0].get_markerfacecolor() != "none" for container in axes.containers]
    assert filled == [True, True, False]
    (across, _) = axes.containers[0][2]
    assert across.get_segments()[0].tolist() == [[0.5, 10.0], [2.0, 10.0]]


def test_of_many_settings_those_on_the_frontier_are_named_in_place(axes):
    trade_figures.frontier(POINTS, axes, y="rollouts an hour")
    assert [text.get_text() for text in axes.texts] == ["a", "b"]


def test_lag_by_load_draws_points_and_the_curve_of_their_line(axes):
    points = pd.DataFrame(
        {"line": ["g", "g", "h"], "rho": [0.5, 1.2, 0.7], "lag": [6.0, 5.0, 3.0], "low": [5.0, np.nan, 2.0]}
    ).assign(high=[7.0, np.nan, 3.5], n=2)
    curves = pd.DataFrame({"line": "g", "rho": [0.1, 1.0], "lag": [5.6, 7.0]})
    trade_figures.lag_by_load(points, curves, axes, look=looks(["g", "h"]))
    assert axes.lines[0].get_xydata().tolist() == [[0.1, 5.6], [1.0, 7.0]]
    bars = axes.containers[0]
    assert bars[0].get_xydata().tolist() == [[0.5, 6.0], [1.2, 5.0]]
    assert bars[2][0].get_segments()[0].tolist() == [[0.5, 5.0], [0.5, 7.0]]
    assert legend(axes) == ["rho = 1", "closed form", "g (2 settings)", "h"]


def test_bars_of_parts_are_as_long_as_the_parts_and_theory_lies_under_the_measured(axes):
    parts = pd.DataFrame({"name": "a", "who": ["measured", "predicted"], "lag": [6.5, 7.0]}).assign(
        generation=[2.0, 2.5], group_wait=[4.0, 4.0], queue=0.5, trainer_ahead=0.0, low=[6.0, np.nan],
        high=[7.0, np.nan], n=2,
    )  # fmt: skip
    part_figures.lag_parts(parts, axes)
    lengths = {c.get_label(): [bar.get_width() for bar in c] for c in axes.containers}
    assert lengths == {
        "generation": [2.0, 2.5], "group wait": [4.0, 4.0], "queue": [0.5, 0.5], "trainer ahead": [0.0, 0.0],
    }  # fmt: skip
    assert list(lengths) == list(PARTS.values())
    measured, theory = axes.containers[0]
    assert measured.get_y() < theory.get_y()  # the axis points down
    assert axes.yaxis_inverted()
    assert [text.get_text() for text in axes.texts] == ["6.50", "7.00 closed form"]


def test_a_dumbbell_stands_at_both_lengths_and_says_their_ratio(axes):
    table = pd.DataFrame(
        {"name": ["a", "b"], "generated": [100.0, 80.0], "trained": [70.0, np.nan], "ratio": [0.7, np.nan]}
    ).assign(low=[0.6, np.nan], high=[0.8, np.nan], n=3)
    length_figures.length_bias(table, axes)
    generated, trained = axes.lines
    assert (generated.get_xdata().tolist(), trained.get_xdata().tolist()) == ([100.0], [70.0])
    assert [text.get_text() for text in axes.texts] == ["0.700 [0.600, 0.800]"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a"]
