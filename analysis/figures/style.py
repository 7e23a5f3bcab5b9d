"""How do figures look? Colour-blind safe, told apart without colour, at home on light and dark pages.

Text and axes are drawn in a stand-in colour that becomes `currentColor` in the SVG, so a page's own ink
colour applies. No pyplot: a figure is an object, not a global.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

# Paul Tol's "vibrant" set (https://personal.sron.nl/~pault/), ordered for contrast between neighbours.
COLOURS: Final = ("#0077bb", "#ee7733", "#009988", "#cc3311", "#ee3377", "#888888")
DASHES: Final = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)), (0, (9, 2)))
MARKERS: Final = ("o", "s", "^", "D", "v", "X", "P")

INK: Final = "#010203"
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
    """A look for each arm. Dashes and markers cycle at coprime lengths, so 35 arms differ without colour."""
    return {
        arm: Look(
            colour=COLOURS[i % len(COLOURS)], dash=DASHES[i % len(DASHES)], marker=MARKERS[i % len(MARKERS)]
        )
        for i, arm in enumerate(arms)
    }


def svg(draw: Callable[[Axes], None], *, name: str, width_in: float = 4.6, height_in: float = 3.0) -> str:
    """One figure as an SVG element to stand inside a page.

    Args:
        draw: fills the axes.
        name: unique in the page; prefixes every id, since the ids of two figures may collide.
    """
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return embed(buffer.getvalue(), name)


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
    """A legend above the data, not on it: nothing is hidden, whatever its shape."""
    shown = list(handles) or axes.get_legend_handles_labels()[0]
    if shown:
        axes.figure.legend(
            handles=shown, loc="outside upper left", ncols=2, fontsize="small", handlelength=3.2
        )
