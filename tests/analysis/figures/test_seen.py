import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures import factors as factor_figures
from analysis.figures import lines as line_figures
from analysis.figures import masks as mask_figures
from analysis.figures import phase as phase_figures
from analysis.figures import ratios as ratio_figures
from analysis.figures.style import looks


@pytest.fixture
def axes():
    return Figure().add_subplot()


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_a_cell_is_cut_by_the_sign_of_the_advantage(axes):
    table = pd.DataFrame(
        {"x": [4, 4, 16], "y": 0.2, "sign": ["positive", "negative", "positive"], "mean": [0.25, 0.004, 0.0]}
    )
    mask_figures.split_cells(table, axes, x="lag", y="eps")
    assert texts(axes) == ["+ 25%", "\u2212 0.4%", "+ 0%"]
    above, below, beside = [(patch.get_x(), patch.get_y(), patch.get_height()) for patch in axes.patches]
    assert above == (-0.5, 0.0, 0.5)
    assert below == (-0.5, -0.5, 0.5)
    assert beside == (0.5, 0.0, 0.5)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "16"]


def test_a_cell_whose_signs_nobody_knows_is_whole(axes):
    table = pd.DataFrame({"x": [4], "y": [0.2], "sign": "all", "mean": [0.5]})
    mask_figures.split_cells(table, axes, x="lag", y="eps")
    assert texts(axes) == ["50%"]
    assert axes.patches[0].get_height() == 1.0


def test_the_tail_stands_at_its_quantiles_and_what_has_no_logarithm_is_counted(axes):
    table = pd.DataFrame({"line": "a", "beyond": [0.5, 0.1, 0.01], "mean": [0.0, 0.2, 1.5], "n": 3})
    ratio_figures.tail(table.assign(low=[0, 0.1, 1.0], high=[0, 0.3, 2.0]), axes, look=looks(["a"]))
    line, two = axes.lines
    assert line.get_xydata().tolist() == [[0.2, 0.1], [1.5, 0.01]]
    assert two.get_xdata()[0] == math.log(2)
    assert texts(axes) == ["1 quantiles at 0 not drawn"]
    (bars,) = axes.collections
    assert bars.get_segments()[1].tolist() == [[1.0, 0.01], [2.0, 0.01]]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_ratios_that_are_all_1_have_no_tail(axes):
    table = pd.DataFrame({"line": "a", "beyond": [0.5], "mean": [0.0], "low": 0.0, "high": 0.0, "n": 3})
    ratio_figures.tail(table, axes, look=looks(["a"]))
    assert texts(axes) == ["1 quantiles at 0 not drawn", "no ratio but 1"]


def test_a_cell_says_when_it_collapsed(axes):
    table = pd.DataFrame([[0.0, 0.5], [np.nan, 1.0]], index=[0.001, 0.002], columns=[4, 8])
    times = pd.DataFrame([[np.nan, 310.0], [np.nan, 1200.0]], index=table.index, columns=table.columns)
    phase_figures.phase_diagram(table, axes, x="lag", y="rate", times=times)
    assert texts(axes) == ["0%", "50%\n310", "100%\n1,200"]
    (slope,) = axes.lines
    x, y = slope.get_data()
    assert (y[0] * x[0], y[1] * x[1]) == pytest.approx((y[0] * x[0],) * 2)


def test_a_fitted_slope_is_drawn_through_the_middle_and_named(axes):
    table = pd.DataFrame(
        {"line": "a", "level": [1, 4], "mean": [1e-3, 1.6e-2], "low": np.nan, "high": np.nan}
    )
    factor_figures.lines_on_logs(
        table.assign(n=2), axes, look=looks(["a"]), x="lag", y="KL", fitted={"a": 2.0}
    )
    points, fit = axes.lines
    assert points.get_ydata().tolist() == [1e-3, 1.6e-2]
    assert fit.get_ydata() == pytest.approx([1e-3, 1.6e-2])
    assert axes.figure.legends[0].get_texts()[0].get_text() == "a (n = 2), slope 2.00"


def test_theory_is_dotted_beside_what_was_measured(axes):
    size = pd.DataFrame({"line": "a", "level": [4, 8], "mean": 0.9, "low": 0.8, "high": 1.0, "n": 2})
    factor_figures.lines_with_theory(size, size.assign(mean=0.7), axes, look=looks(["a"]), x="lag", y="ESS")
    measured, theory = axes.lines
    assert theory.get_ydata().tolist() == [0.7, 0.7]
    assert theory.get_xdata().tolist() == measured.get_xdata().tolist()
    assert len(axes.figure.legends[0].get_texts()) == 1


def test_a_logarithmic_height_counts_what_it_hides(axes):
    table = pd.DataFrame({"arm": "a", "x": [1, 2, 3], "mean": [0.0, 2.0, 30.0], "low": 0, "high": 1, "n": 1})
    line_figures.mean_curves(table, axes, look=looks(["a"]), x="update", y="norm", logarithmic=True)
    assert axes.get_yscale() == "log"
    assert texts(axes) == ["1 points at 0 or below not drawn"]
