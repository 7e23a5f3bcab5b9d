"""What is a figure of a report? A title, the drawing, its numbers, and in words what it shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import final

import pandas as pd

from analysis.figures.style import Drawing


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """A figure of the page; `alt` says in words what it shows, for whoever cannot see it."""

    title: str
    drawing: Drawing
    alt: str
    caption: str = ""
    data: pd.DataFrame | None = None
    """Its numbers, where the drawing is not made of one table."""

    @property
    def table(self) -> pd.DataFrame | None:
        """The numbers that are drawn: a figure's function has its table as first argument."""
        given = getattr(self.drawing.draw, "args", ())
        first = given[0] if given and isinstance(given[0], pd.DataFrame) else None
        return first if self.data is None else self.data

    @property
    def file_name(self) -> str:
        """Its title as the name of a file, without an ending."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")
