import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis.figures import lines as figures
from analysis.figures.style import COLOURS, looks, svg


@pytest.fixture
def axes():
    return Figure().add_subplot()


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.figure.legends[0].get_texts()]


def test_a_curve_is_drawn_where_the_table_says_and_its_legend_says_n(axes):
    table = pd.DataFrame(
        {"arm": "sao", "x": [1.0, 2], "mean": [0.2, 0.4], "low": 0.1, "high": 0.5, "n": [5, 3]}
    )
    figures.mean_curves(table, axes, look=looks(["sao"]), x="update", y="accuracy", levels={"chance": 0.1})
    line, chance = axes.lines
    assert list(chance.get_ydata()) == [0.1, 0.1]
    assert line.get_xydata().tolist() == [[1.0, 0.2], [2.0, 0.4]]
    assert legend(axes) == ["sao (n = 3-5)"]


def test_a_log_axis_says_how_many_empty_bins_it_hides(axes):
    # Case E04: lags 0, 1 and 4: bins 2 and 3 hold nothing and cannot be drawn.
    lags = pd.DataFrame({"arm": "a", "lag": [0, 1, 4], "rollouts": [10, 80, 10]})
    figures.lag_histogram(lags, axes, look=looks(["a"]))
    assert [text.get_text() for text in axes.texts] == ["2 empty bins not drawn"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.1, 0.8, np.nan, np.nan, 0.1])


def test_wide_lags_share_bins_and_none_is_lost(axes):
    lags = pd.DataFrame({"arm": "a", "lag": np.arange(200), "rollouts": 1})
    figures.lag_histogram(lags, axes, look=looks(["a"]))
    assert np.nansum(axes.lines[0].get_ydata()) == pytest.approx(1.0)
    assert axes.get_xlabel() == "lag of the oldest token (updates, in bins of 4)"
    assert len(axes.texts) == 0


def test_an_idle_bar_is_as_long_as_its_causes_together(axes):
    idle = pd.DataFrame(
        {"arm": "a", "kind": ["trainer", "trainer", "engines"], "cause": ["no_batch", "push", "gate_closed"]}
    ).assign(idle=[0.3, 0.1, 0.7])
    figures.idle_bars(idle, axes)
    names = [label.get_text() for label in axes.get_yticklabels()]
    lengths = dict(zip(names, [bar.get_width() for bar in axes.patches], strict=True))
    assert lengths == pytest.approx({"a: engines": 0.7, "a: trainer": 0.4})
    assert {text.get_text().strip() for text in axes.texts} == {"40%, mostly no batch", "70%, gate closed"}


def test_35_arms_differ_without_colour():
    seen = looks([str(i) for i in range(35)])
    assert len({(str(look.dash), look.marker) for look in seen.values()}) == 35


def linear(colour: str) -> np.ndarray:
    """Linear RGB of an sRGB colour."""
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def to_lab(rgb) -> np.ndarray:
    """CIE L*a*b* of a linear RGB colour, D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes 2009, severity 1: https://doi.org/10.1109/TVCG.2009.113
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)


def test_neighbouring_colours_differ_under_deuteranopia():
    # Case E07: a CIE76 distance of 15, where the default cycle has 7.3.
    seen = [to_lab(np.clip(DEUTERANOPIA @ linear(colour), 1e-6, 1)) for colour in COLOURS]
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen[:4], 2)]
    assert min(distances) >= 15


def test_an_svg_stands_in_a_page_with_its_own_ids_and_the_pages_ink():
    def draw(axes) -> None:
        axes.plot([0, 1], [0, 1], marker="o")
        axes.set_xlabel("a$b$ & <c>")

    text = svg(draw, name="one")
    root = ET.fromstring(text)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert ids
    assert all(name.startswith("one-") for name in ids)
    references = [v[1:] for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
    references += re.findall(r"url\(#([^)]+)\)", text)
    assert any("url" in value for element in root.iter() for value in element.attrib.values())
    assert set(references) <= set(ids)
    assert "#010203" not in text
    assert "currentColor" in text
    assert "width" not in root.attrib
    assert "a$b$ & <c>" in "".join(root.itertext())
    assert svg(draw, name="one") == text
