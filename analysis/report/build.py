"""What do the recorded runs say? One HTML page: verdict first, then numbers, then how they were made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import pandas as pd

from analysis.figures.style import alone
from analysis.measures.collapse import Criteria
from analysis.pictures.one_run import run_pictures
from analysis.pictures.picture import Picture
from analysis.pictures.registered import registered_pictures
from analysis.pictures.usual import study_pictures
from analysis.report import page as html
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
from analysis.runs import Run, load_runs, only_run, read_json
from analysis.runs import missing_runs as names_of_missing
from analysis.study import Study, summarise
from analysis.verdicts.by_arm import MANY_ARMS, cells, verdict_table
from analysis.verdicts.judge import Verdict, judge_all
from simulator.studies.hypothesis import Hypothesis

BOOTSTRAP_SEED: Final = 20240
"""Fixed, so that a report made twice from the same runs is the same, byte for byte."""


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
    run: Run | None = None
    """The run itself, if there is only one: its page shows it from within."""


def report_for_study(
    *folders: Path,
    hypotheses: Sequence[Hypothesis] | None = None,
    criteria: Criteria | None = None,
    title: str | None = None,
) -> Report:
    """Read and judge recorded runs: a study folder, or any run folders.

    A study's `study.json`, written before its first run, may carry `criteria` (fields of `Criteria`),
    `hypotheses` (fields of `Hypothesis`), `title`, `arms` in the order to show them, their `factors`,
    `pictures`, and the `runs` that count. What is passed here wins over it.

    Raises:
        FileNotFoundError: if there is no recorded run.
        ValueError: if a claim names an outcome that does not exist, or a seed of an arm is there twice.
    """
    registered = read_json(folders[0] / "study.json") if len(folders) == 1 else {}
    try:
        judged_by = criteria or Criteria(**registered.get("criteria", {}))
        claims = [Hypothesis(**stored) for stored in registered.get("hypotheses", [])]
    except TypeError as unknown:
        raise ValueError(f"{folders[0] / 'study.json'}: {unknown}") from unknown
    return judged(
        summarise(
            load_runs(*folders), judged_by, arms=registered.get("arms", ()), factors=registered.get("factors")
        ),
        run=only_run(*folders),
        hypotheses=claims if hypotheses is None else hypotheses,
        pictures=registered.get("pictures", ()),
        title=title or str(registered.get("title") or folders[0].resolve().name),
        made_by=provenance(read_json(folders[0] / "meta.json")) | absent(names_of_missing(folders[0])),
        registered_runs=len(registered["runs"]) if "runs" in registered else None,
    )


def judged(
    study: Study,
    *,
    hypotheses: Sequence[Hypothesis],
    title: str,
    pictures: Sequence[Mapping[str, Any]] = (),
    made_by: Mapping[str, str] | None = None,
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
        run=run,
    )


def render(report: Report) -> str:
    """The report as one self-contained HTML page."""
    study = report.study
    made = [*report.made_by.items(), *seeds_by_arm(study.outcomes).items()]
    learned = bool(report.table["measured"].any())
    by_arm = html.data_table(cells(report.table, score=study.criteria.metric), corner="arm")
    parts = [
        html.title(report.title),
        html.paragraph(report.headline, "headline"),
        html.paragraph(scope(study.outcomes), "soft"),
    ]
    # Of many arms the table is long: what was claimed and what is seen come first.
    many = len(report.table) > MANY_ARMS
    parts += [] if many else [html.section("Verdict by arm", by_arm)]
    if report.verdicts:
        parts.append(
            html.section(
                "Claims",
                html.data_table(claims(report.verdicts), corner="id", words=True),
                html.paragraph(multiplicity(report.verdicts), "soft"),
            )
        )
    figures = html.section("Figures", html.pictures(_pictures(report)))
    parts += [figures, html.section("Verdict by arm", by_arm)] if many else []
    parts += fates(study.outcomes)
    parts += fitted(study.outcomes)
    parts += run_sections(report.run) if report.run is not None else []
    parts += [] if many else [figures]
    parts += [
        html.section("How it was made", html.definitions(made)),
        html.section("Definitions", html.definitions(definitions(study.criteria, learned=learned))),
    ]
    return html.page(report.title, parts)


def figure_files(report: Report) -> dict[str, str]:
    """The report's figures as SVG, by a file name made of their titles.

    On a page they take its colours; alone they are black on white.
    """
    return {
        re.sub(r"[^a-z0-9]+", "-", picture.title.lower()).strip("-") + ".svg": alone(picture.svg)
        for picture in _pictures(report)
    }


def _pictures(report: Report) -> list[Picture]:
    """Those that were registered, those of any study, and of the run from within if it is the only one."""
    own = run_pictures(report.run) if report.run is not None else []
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    asked = registered_pictures(report.study, report.pictures, rng)
    # A line an arm cannot be told apart for a grid of arms, which has registered what it is to be seen by.
    many = asked and report.study.outcomes["arm"].nunique() > MANY_ARMS
    usual = [] if many else study_pictures(report.study, np.random.default_rng(BOOTSTRAP_SEED))
    return asked + usual + own
