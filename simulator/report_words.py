"""Which recorded runs are reported, and where does the page go?

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from simulator.command_line import BadInputError, run_tyro


@dataclass(frozen=True)
class Reporting:
    """Figures and verdicts from recorded runs, as one HTML page."""

    runs: tyro.conf.Positional[list[Path]]
    """Run folders, or one study folder."""
    out: Path | None = None
    """The page; by default report.html in the folder, or here if there are several."""
    figures: Path | None = None
    """Also write every figure into this folder: SVG, PNG and its numbers as CSV."""
    claims: Path | None = None
    """Judge these claims too: a file as `policylag study` takes it, of which title, claims, criteria and
    pictures count."""
    half_width: float | None = None
    """Also print how many seeds each arm needs for a final score known to so much on either side."""

    @property
    def page(self) -> Path:
        return self.out or (self.runs[0] if len(self.runs) == 1 else Path()) / "report.html"


def read_report(words: list[str]) -> Reporting:
    """`RUN... [--out PAGE] [--figures FOLDER] [--half-width W]`.

    Raises:
        BadInputError: no folder, a word that is no field, a half-width that is none.
    """
    asked = run_tyro(Reporting, words, command="report")
    if not asked.runs:
        raise BadInputError("report: needs a run folder")
    if asked.half_width is not None and not 0 < asked.half_width < float("inf"):
        raise BadInputError(f"report: half_width: {asked.half_width} is not a finite number above 0")
    return asked
