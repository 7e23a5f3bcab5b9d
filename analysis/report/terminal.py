"""What does a terminal show of a run or a study? Plain text, or one JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pandas as pd
from rich.console import Console

from analysis.measures.lag_split import PARTS
from analysis.report.build import Report
from analysis.verdicts.by_arm import to_rich
from analysis.verdicts.judge import verdict_rows


class Terminal(Console):
    """A console that leaves a reader's early end (`| head`) to the front door."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def run_text(outcomes: Mapping[str, object]) -> str:
    """One line an outcome, and one for the parts of the lag; what was not measured is left out."""
    known = _split_on_one_line(_known(outcomes))
    width = max(map(len, known))
    return "\n".join(
        f"{name:{width}}  {value:.4g}" if isinstance(value, float) else f"{name:{width}}  {value}"
        for name, value in known.items()
    )


def run_json(outcomes: Mapping[str, object]) -> str:
    """The same as one JSON object."""
    return json.dumps(_known(outcomes), allow_nan=False)


def print_study(report: Report, console: Console) -> None:
    """The verdict table, folded to the terminal's width, and one line a claim."""
    console.print(
        to_rich(
            report.table,
            score=report.study.criteria.metric,
            width=console.width,
            encoding=console.encoding,
        )
    )
    for row in _rows(report).itertuples():
        if row.missing_arms:
            line = f"{row.id} {row.verdict}: {row.claim}. {row.n}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
            continue
        bounds = f"[{row.low:+.3g}, {row.high:+.3g}]".replace("[+nan, +nan]", "(no interval)")
        interval = f"{row.estimate:+.3g} {bounds}".replace("+nan (no interval)", "not measured")
        line = f"{row.id} {row.verdict}: {row.claim}. {interval}; {row.n}; {row.test}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def study_json(report: Report) -> str:
    """The same as one JSON object; numbers that are not finite are null."""
    arms, claims = (
        json.loads(table.to_json(orient="records")) for table in (report.table.reset_index(), _rows(report))
    )
    return json.dumps({"headline": report.headline, "arms": arms, "claims": claims}, allow_nan=False)


def _rows(report: Report) -> pd.DataFrame:
    return verdict_rows(report.verdicts)


def _split_on_one_line(known: Mapping[str, object]) -> dict[str, object]:
    parts = {words: known[f"lag_{name}"] for name, words in PARTS.items() if f"lag_{name}" in known}
    said = " + ".join(f"{words} {value:.3g}" for words, value in parts.items())
    lines: dict[str, object] = {}
    for name, value in known.items():
        if name.removeprefix("lag_") not in PARTS:
            lines[name] = value
        elif "lag_split" not in lines:
            lines["lag_split"] = said
    return lines


def _known(outcomes: Mapping[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in outcomes.items()
        if not (isinstance(value, float) and not math.isfinite(value))
    }
