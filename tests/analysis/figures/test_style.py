"""Can 35 arms be told apart, by whatever eyes, on light and on dark pages?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from analysis.figures.style import (
    COLOURS,
    LEGEND_LETTERS,
    ROW_LETTERS,
    drawing,
    looks,
    name_rows,
    outside_legend,
)

EYES = {
    # Machado, Oliveira and Fernandes 2009, severity 1: https://doi.org/10.1109/TVCG.2009.113
    "all colours": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    """Linear RGB of an sRGB colour."""
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def seen(colour: str, eyes: np.ndarray) -> np.ndarray:
    """CIE L*a*b* (D65) of what such eyes see."""
    relative = XYZ @ np.clip(eyes @ linear(colour), 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(relative > (6 / 29) ** 3, np.cbrt(relative), relative / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def smallest_distance(one: str, other: str) -> float:
    """CIE76, to the eyes that see them closest."""
    return min(float(np.linalg.norm(seen(one, eyes) - seen(other, eyes))) for eyes in EYES.values())


def contrast(one: str, other: str) -> float:
    """https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio"""
    light, dark = sorted((float(XYZ[1] @ linear(colour)) for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_lab_of_known_colours():
    assert seen("#ffffff", np.eye(3)) == pytest.approx([100, 0, 0], abs=0.05)
    assert seen("#ff0000", np.eye(3)) == pytest.approx([53.24, 80.09, 67.20], abs=0.1)
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(COLOURS, 2)))
def test_any_two_colours_are_apart_to_all_eyes(one, other):
    assert smallest_distance(one, other) >= 15


def test_of_35_arms_any_two_differ_in_colour_or_in_both_dash_and_marker():
    drawn = looks([str(i) for i in range(35)]).values()
    for one, other in itertools.combinations(drawn, 2):
        without_colour = str(one.dash) != str(other.dash) and one.marker != other.marker
        assert without_colour or smallest_distance(one.colour, other.colour) >= 15
    assert len({(str(look.dash), look.marker) for look in drawn}) == 35


@pytest.mark.parametrize("page", ["#ffffff", "#0d1117"])
@pytest.mark.parametrize("colour", COLOURS)
def test_lines_stand_out_on_light_and_on_dark_pages(colour, page):
    # What a graphic needs: https://www.w3.org/TR/WCAG21/#non-text-contrast
    assert contrast(colour, page) >= 3


def test_a_long_name_is_folded_in_the_legend_and_nothing_of_it_is_lost():
    name = "-".join(["behaviour"] * 14)
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label=name)
    outside_legend(axes)
    (text,) = figure.legends[0].get_texts()
    lines = text.get_text().splitlines()
    assert "".join(lines) == name
    assert max(map(len, lines)) <= LEGEND_LETTERS


def test_of_a_row_with_a_long_name_both_ends_are_shown_on_two_lines():
    axes = Figure().add_subplot()
    long = "a-clip-on-" + "very-" * 20 + "stale-data: engines"
    name_rows(axes, [0, 1, 2], ["sao: trainer", "grpo with a clip on the behaviour ratio", long])
    short, folded, cut = (label.get_text() for label in axes.get_yticklabels())
    assert short == "sao: trainer"
    assert folded.split("\n") == ["grpo with a clip on the", "behaviour ratio"]
    first, last = cut.split("\n")
    assert long.startswith(first.removesuffix("..."))
    assert long.endswith(last)
    assert last.endswith("stale-data: engines")
    assert max(len(first), len(last)) <= ROW_LETTERS


def test_a_legend_of_many_lines_takes_nothing_of_the_datas_height():
    def height_in(arms: int) -> float:
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for i in range(arms):
            axes.plot([0, 1], [0, i], label=f"{i} " + "behaviour " * 9)
        outside_legend(axes)
        figure.draw_without_rendering()
        return float(axes.get_window_extent().height / figure.dpi)

    assert height_in(1) == pytest.approx(height_in(12), rel=0.1)


def test_a_drawing_is_the_same_picture_each_time_and_both_ways():
    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1])

    figure = drawing(draw, name="one", width_in=3.0, height_in=2.0)
    assert figure.svg() == figure.svg()
    assert figure.png() == figure.png()
    # The header of a PNG has its size: 3 x 2 inches at 200 dots an inch.
    assert figure.png()[16:24] == (600).to_bytes(4, "big") + (400).to_bytes(4, "big")
