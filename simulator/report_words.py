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
    """Also write every figure into this folder, as SVG."""

    @property
    def page(self) -> Path:
        return self.out or (self.runs[0] if len(self.runs) == 1 else Path()) / "report.html"


def read_report(words: list[str]) -> Reporting:
    """`RUN... [--out PAGE] [--figures FOLDER]`.

    Raises:
        BadInputError: no folder, or a word that is no field.
    """
    asked = run_tyro(Reporting, words, command="report")
    if not asked.runs:
        raise BadInputError("report: needs a run folder")
    return asked
