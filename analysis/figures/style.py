"""How do figures look? Colour-blind safe, told apart without colour, at home on light and dark pages.

Text and axes are drawn in a stand-in colour that becomes `currentColor` in the SVG, so a page's own ink
colour applies. No pyplot: a figure is an object, not a global.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final, final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

COLOURS: Final = (
    "#0875b9",  # blue
    "#e2754b",  # orange
    "#10a3b9",  # cyan
    "#c1290a",  # red
    "#ee3275",  # magenta
    "#8d8e8e",  # grey
    "#7744cc",  # violet
    "#a19700",  # olive
)
"""Begun from Paul Tol's "vibrant" set (https://personal.sron.nl/~pault/) and moved apart by a search: any two
differ by a CIE76 distance of 16 or more, to full colour vision and to the three kinds of dichromats
(https://doi.org/10.1109/TVCG.2009.113), and each has a contrast of 3 on white and on a dark page."""
DASHES: Final = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)), (0, (9, 2)))
MARKERS: Final = ("o", "s", "^", "D", "v", "X", "P")

INK: Final = "#010203"
PNG_DPI: Final = 200
LEGEND_LETTERS: Final = 56
"""Most letters of a line of the legend."""
LEGEND_ROOM_IN: Final = 0.45
"""Height of a legend that a figure has room for; a higher one makes it taller: the data keeps its height."""
ROW_LETTERS: Final = 28
"""Most letters of a line of a row's name, of which there are at most two."""
_SETTINGS: Final[dict[Any, Any]] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "font.family": ["sans-serif"],
    "font.size": 10,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "policylag",
    "text.color": INK,
    "text.parse_math": False,  # an arm called `a$b$` is a name, not a formula
    "xtick.color": INK,
    "ytick.color": INK,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one arm is drawn, in every figure of a report."""

    colour: str
    dash: Any
    marker: str


def looks(arms: Sequence[str]) -> dict[str, Look]:
    """A look for each arm. Dashes and markers cycle at coprime lengths, so 35 arms differ without colour.

    There are 8 colours, so that of those 35 no two with the same dash, or the same marker, have one colour.
    """
    return {
        arm: Look(
            colour=COLOURS[i % len(COLOURS)], dash=DASHES[i % len(DASHES)], marker=MARKERS[i % len(MARKERS)]
        )
        for i, arm in enumerate(arms)
    }


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawing:
    """A figure that is not on paper yet: what fills its axes, and how large it will be."""

    draw: Callable[[Axes], None]
    name: str
    """Unique in the page; prefixes every id, since the ids of two figures may collide."""
    width_in: float = 4.6
    height_in: float = 3.0

    def svg(self) -> str:
        """An SVG element to stand inside a page, in the page's ink."""
        return svg(self.draw, name=self.name, width_in=self.width_in, height_in=self.height_in)

    def png(self) -> bytes:
        """An image file, black on white."""
        with mpl.rc_context(_SETTINGS):
            figure = _figure(self.draw, self.width_in, self.height_in)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})
        return buffer.getvalue()


def drawing(
    draw: Callable[[Axes], None], *, name: str, width_in: float = 4.6, height_in: float = 3.0
) -> Drawing:
    """A figure to be drawn when it is asked for, as SVG or as PNG; see `Drawing`."""
    return Drawing(draw=draw, name=name, width_in=width_in, height_in=height_in)


def svg(draw: Callable[[Axes], None], *, name: str, width_in: float = 4.6, height_in: float = 3.0) -> str:
    """One figure as an SVG element to stand inside a page.

    Args:
        draw: fills the axes.
        name: unique in the page; prefixes every id, since the ids of two figures may collide.
    """
    with mpl.rc_context(_SETTINGS):
        figure = _figure(draw, width_in, height_in)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return embed(buffer.getvalue(), name)


def _figure(draw: Callable[[Axes], None], width_in: float, height_in: float) -> Figure:
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    draw(figure.add_subplot())
    return figure


def embed(text: str, name: str) -> str:
    """An SVG file made fit to stand inside HTML: no prologue, no fixed size, own ids, the page's ink."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    return text.replace(INK, "currentColor").replace("<svg", '<svg aria-hidden="true"', 1)


def alone(figure: str) -> str:
    """A figure from `svg` as a picture of its own, in a file or a notebook: its size, black on white."""
    form = r'<svg style="background:#fff;color:#000" width="\2pt" height="\3pt"\1 viewBox="0 0 \2 \3"'
    return re.sub(r'<svg aria-hidden="true"([^>]*) viewBox="0 0 ([\d.]+) ([\d.]+)"', form, figure, count=1)


def outside_legend(axes: Axes, *, handles: Sequence[Any] = ()) -> None:
    """A legend above the data, not on it: nothing is hidden, whatever its shape.

    Two columns where the names are short enough; a name longer than a line is folded.
    """
    shown = list(handles) or axes.get_legend_handles_labels()[0]
    if not shown:
        return
    names = ["\n".join(wrap(str(handle.get_label()), LEGEND_LETTERS)) for handle in shown]
    columns = 2 if max(map(len, names)) <= LEGEND_LETTERS // 2 else 1
    figure = axes.get_figure(root=True)
    assert figure is not None
    legend = figure.legend(
        handles=shown,
        labels=names,
        loc="outside upper left",
        ncols=columns,
        fontsize="small",
        handlelength=3.2,
    )
    height_in = legend.get_window_extent().height / figure.dpi
    figure.set_figheight(figure.get_figheight() + max(0.0, height_in - LEGEND_ROOM_IN))


def name_rows(axes: Axes, places: Sequence[float] | NDArray[Any], names: Sequence[str]) -> None:
    """Names of rows beside the axes; a long one is folded, of a still longer one the middle is left out."""
    said = [_folded(name) for name in names]
    axes.set_yticks(places, said)
    if any("\n" in name for name in said):
        axes.tick_params(axis="y", labelsize="x-small")


def _folded(name: str) -> str:
    lines = wrap(name, ROW_LETTERS)
    if len(lines) <= 2:
        return "\n".join(lines)
    return f"{name[: ROW_LETTERS - 3].rstrip()}...\n{name[-ROW_LETTERS:].lstrip()}"
