"""What is a figure, once it is drawn? A title, the drawing, and in words what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure of the page; `alt` says in words what it shows, for whoever cannot see it."""

    title: str
    svg: str
    alt: str
    caption: str = ""
