"""What do the recorded runs say? One HTML page: verdict first, then numbers, then how they were made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pandas as pd

from analysis.measures.collapse import Criteria
from analysis.pictures.one_run import run_pictures
from analysis.pictures.picture import Picture
from analysis.pictures.registered import registered_pictures
from analysis.pictures.usual import study_pictures
from analysis.report import page as html
from analysis.report.commands import commands
from analysis.report.comparison import compared
from analysis.report.files import files
from analysis.report.one_run import run_sections
from analysis.report.tables import fates, fitted
from analysis.report.words import (
    absent,
    claims,
    definitions,
    headline,
    missing_runs,
    multiplicity,
    provenance,
    scope,
    seeds_by_arm,
)
from analysis.runs import Run, called, load_runs, named_apart, only_run, read_json
from analysis.runs import missing_runs as names_of_missing
from analysis.study import Study, summarise
from analysis.verdicts.by_arm import MANY_ARMS, cells, verdict_table
from analysis.verdicts.judge import Verdict, judge_all, verdict_rows
from simulator.studies.hypothesis import Hypothesis

BOOTSTRAP_SEED: Final = 20240
"""Fixed, so that a report made twice from the same runs is the same, byte for byte."""
SIDE_BY_SIDE: Final = 5
"""Most arms whose verdicts fit side by side on a page."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A judged study, ready to be shown on a page or in a terminal."""

    title: str
    study: Study
    table: pd.DataFrame
    """From `verdict_table.verdict_table`; `verdict_table.to_rich` shows it in a terminal."""
    verdicts: Sequence[Verdict]
    headline: str
    pictures: Sequence[Mapping[str, Any]] = ()
    """Figures that were registered: {"kind": ..., and its options} (`analysis.pictures.registered`)."""
    made_by: Mapping[str, str] = field(default_factory=dict)
    """How it was made: command, versions, revision; shown as is."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """What makes the runs, the page and its files again."""
    run: Run | None = None
    """The run itself, if there is only one: its page shows it from within."""


def report_for_study(
    *folders: Path,
    hypotheses: Sequence[Hypothesis] | None = None,
    criteria: Criteria | None = None,
    pictures: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    claims_file: Path | None = None,
) -> Report:
    """Read and judge recorded runs: a study folder, or any run folders.

    Runs of one name and other settings are arms of their own, named after what differs (`analysis.apart`).
    A study's `study.json`, written before its first run, may carry `criteria` (fields of `Criteria`),
    `hypotheses` (fields of `Hypothesis`), `title`, `arms` in the order to show them, their `factors`,
    `pictures`, and the `runs` that count. What is passed here wins over it.

    Raises:
        FileNotFoundError: if there is no recorded run.
        ValueError: if a claim names an outcome that does not exist, or a seed of an arm is there twice.
    """
    registered = read_json(folders[0] / "study.json") if len(folders) == 1 else {}
    runs, settings = (load_runs(*folders), {}) if registered else named_apart(*folders)
    try:
        judged_by = criteria or Criteria(**registered.get("criteria", {}))
        claims = [Hypothesis(**stored) for stored in registered.get("hypotheses", [])]
    except TypeError as unknown:
        raise ValueError(f"{folders[0] / 'study.json'}: {unknown}") from unknown
    return judged(
        summarise(runs, judged_by, arms=registered.get("arms", ()), factors=registered.get("factors")),
        run=only_run(*folders),
        hypotheses=claims if hypotheses is None else hypotheses,
        pictures=pictures or registered.get("pictures", ()),
        title=title or str(registered.get("title") or _named(folders)),
        made_by=provenance(read_json(folders[0] / "meta.json"))
        | absent(names_of_missing(folders[0]))
        | settings,
        commands=commands(folders, claims_file),
        registered_runs=len(registered["runs"]) if "runs" in registered else None,
    )


def _named(folders: Sequence[Path]) -> str:
    first, *others = map(called, folders)
    return f"{first} and {len(others)} more" if others else first


def judged(
    study: Study,
    *,
    hypotheses: Sequence[Hypothesis],
    title: str,
    pictures: Sequence[Mapping[str, Any]] = (),
    made_by: Mapping[str, str] | None = None,
    commands: Mapping[str, str] | None = None,
    registered_runs: int | None = None,
    run: Run | None = None,
) -> Report:
    """Judge a study: its table, its claims, its one sentence."""
    table = verdict_table(study.outcomes, rng=np.random.default_rng(BOOTSTRAP_SEED))
    verdicts = judge_all(hypotheses, study.outcomes)
    said = headline(table, study.outcomes, verdicts, score=study.criteria.metric)
    return Report(
        title=title,
        study=study,
        table=table,
        verdicts=verdicts,
        pictures=pictures,
        headline=f"{said} {missing_runs(len(study.outcomes), registered_runs)}".strip(),
        made_by=made_by or {},
        commands=commands or {},
        run=run,
    )


def render(report: Report) -> str:
    """The report as one self-contained HTML page."""
    study = report.study
    sections = {heading: parts for heading, parts in _sections(report) if parts}
    made_by = report.made_by.get("command") or next(iter(report.commands.values()), "")
    return html.page(
        report.title,
        [
            html.title(report.title),
            html.paragraph(report.headline, "headline"),
            html.paragraph(scope(study.outcomes), "soft"),
            html.command(made_by) if made_by else "",
            html.contents(list(sections)),
            *(html.section(heading, *parts) for heading, parts in sections.items()),
        ],
    )


def _sections(report: Report) -> Iterator[tuple[str, list[str]]]:
    """Headings with what stands under them, in the order of a reader's questions."""
    outcomes = report.study.outcomes
    figures = ("Figures", [html.pictures(_pictures(report))])
    # Of many arms the table is long: what was claimed and what is seen come first.
    many = len(report.table) > MANY_ARMS
    if not many:
        yield "Verdict by arm", _by_arm(report)
    yield "Claims", _claims(report.verdicts)
    if many:
        yield figures
        yield "Verdict by arm", _by_arm(report)
    elif report.run is None:
        yield figures
    yield "Over all tasks", compared(report.study)
    yield "How the runs ended", fates(outcomes)
    yield "Fits across arms", fitted(outcomes)
    if report.run is not None:
        yield figures
        yield from run_sections(report.run)
    # What is to be typed comes first, then what it was made from.
    made = {**report.commands, **report.made_by, **seeds_by_arm(outcomes)}
    first = {name: made.pop(name) for name in ("command", *report.commands) if name in made}
    yield html.MADE, [html.definitions([*first.items(), *made.items()], commands=list(first))]
    learned = bool(report.table["measured"].any())
    yield "Definitions", [html.definitions(definitions(report.study.criteria, learned=learned))]


def _by_arm(report: Report) -> list[str]:
    """Few arms stand side by side; many arms are rows."""
    words = cells(report.table, score=report.study.criteria.metric)
    few = len(words) <= SIDE_BY_SIDE
    return [
        html.data_table(words.T if few else words, corner="" if few else "arm"),
        html.paragraph("Means over the seeds of an arm; in brackets their 95 % bootstrap interval.", "soft"),
        html.source(data_by_arm=report.table, data_by_run=report.study.outcomes),
    ]


def _claims(verdicts: Sequence[Verdict]) -> list[str]:
    if not verdicts:
        return []
    return [
        html.data_table(claims(verdicts), corner="id", words=True),
        html.paragraph(multiplicity(verdicts), "soft"),
        html.source(claims=verdict_rows(verdicts)),
    ]


def figure_files(report: Report) -> Iterator[tuple[str, bytes]]:
    """The report's figures with their data, as names and contents of files, one at a time."""
    return files(_pictures(report))


def _pictures(report: Report) -> list[Picture]:
    """Those that were registered, those of any study, and of the run from within if it is the only one."""
    own = run_pictures(report.run) if report.run is not None else []
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    asked = registered_pictures(report.study, report.pictures, rng)
    # A line an arm cannot be told apart for a grid of arms, which has registered what it is to be seen by.
    many = asked and report.study.outcomes["arm"].nunique() > MANY_ARMS
    usual = [] if many else study_pictures(report.study, np.random.default_rng(BOOTSTRAP_SEED))
    return asked + usual + own
