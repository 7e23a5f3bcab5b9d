"""What is kept and said when a run or a study is over: its trace, its page, and what a terminal shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.measures.collapse import Criteria
from analysis.measures.outcomes import outcomes
from analysis.measures.steady import steady_states
from analysis.report.build import render, report_for_study
from analysis.report.steady import steady_numbers, steady_text
from analysis.report.terminal import Terminal, print_study, run_json, run_text, study_json
from analysis.runs import Run, load_run
from analysis.trace.write import trace_json
from simulator.files import write_text


def keep_trace(run: Run, folder: Path) -> Path:
    """The run for ui.perfetto.dev; the file."""
    trace = folder / "trace.json"
    write_text(trace, trace_json(run))
    return trace


def run_said(run: Run, criteria: Mapping[str, Any], more: Mapping[str, object], *, as_json: bool) -> str:
    """What a run came to.

    Args:
        criteria: fields of `Criteria`.
        more: what its tables do not hold.
    """
    found = outcomes(run, Criteria(**criteria)) | dict(more)
    long_run = steady_states(run)
    if as_json:
        return run_json(found | {"long_run": steady_numbers(long_run)})
    return run_text(found) + steady_text(long_run)


def finish_study(study: Path, shown: Path, *, as_json: bool) -> None:
    """Judge the runs that are there; write the page and a trace, and say what it came to.

    Args:
        study: its folder.
        shown: folder of the run that is traced.
    """
    judged = report_for_study(study)
    page = study / "report.html"
    write_text(page, render(judged))
    trace = keep_trace(load_run(shown), study)
    if as_json:
        print(study_json(judged))
        return
    print_study(judged, Terminal())
    if "missing runs" in judged.made_by:
        print(f"missing runs: {judged.made_by['missing runs']}")
    print(f"report {page}; trace for ui.perfetto.dev {trace}")
