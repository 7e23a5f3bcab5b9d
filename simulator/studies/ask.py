"""Which study, of which size, which of its runs, and where? From the words of `policylag study`."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, final

from pydantic import BaseModel

from simulator.command_line import BadInputError, StudyOptions, bad_input, read_experiment, with_lengths
from simulator.config import PipelineConfig
from simulator.folders import must_be_makeable
from simulator.studies import own
from simulator.studies import plan as grid
from simulator.studies.cells import Cell
from simulator.studies.every import STUDIES, Study
from simulator.words import last_value

_LISTED: Final = 12
"""Arms that a message names; a grid may have hundreds."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A study, checked: nothing in it can be refused any more."""

    plan: grid.Plan
    config: BaseModel
    cells: Sequence[Cell]
    """Every run of the plan."""
    chosen: Sequence[Cell]
    """Those of the arms that were asked for."""
    out: Path
    options: StudyOptions
    words: Sequence[str]


def ask(words: list[str]) -> Asked:
    """`NAME or FILE [--size SIZE] [--only PATTERN] [--config FILE] [--field value ...]`.

    Raises:
        BadInputError: no name or an unknown one, a size or arm that is not there, a field or value that
            cannot be, or a folder that can be no study's.
    """
    if not words or words[0].startswith("-"):
        raise BadInputError(f"study: needs a name or a file; there are {', '.join(STUDIES)}")
    name, studies = _known(words[0])
    size = last_value(words, "--size") or StudyOptions.size
    sizes = studies[name].SIZES if name in studies else {}
    if name in studies and size not in sizes:
        raise BadInputError(f"study: size {size!r} of {name} is none of {', '.join(sizes)}")
    about = "The same command resumes what was interrupted."
    sized = {each: (lambda study=study: study.SIZES[size]) for each, study in studies.items()}
    _, config, options = read_experiment(
        [name, *words[1:]],
        sized,
        StudyOptions(),
        command="study",
        about=f"{question(name)} {about}" if name in STUDIES else about,
        what="study",
    )
    _check(options)
    with bad_input("study: "):
        config = _with_lengths(config, options)
        plan = studies[name].plan(config)
        cells = grid.cells(plan)
        for cell in cells:
            cell.key  # noqa: B018 - reads the files that the cell depends on
    out = options.out or Path("runs") / (name if size == "small" else f"{name}-{size}")
    must_be_a_studys(out)
    arms = _chosen(list(plan.arms), options.only)
    return Asked(
        plan=plan,
        config=config,
        cells=cells,
        chosen=[cell for cell in cells if cell.arm in arms],
        out=out,
        options=options,
        words=words,
    )


def _known(word: str) -> tuple[str, Mapping[str, Study]]:
    """A study's name and all that are known by name, the one of a file among them."""
    if not own.is_file(word):
        return word.replace("_", "-"), STUDIES
    with bad_input(f"study: {word}: "):
        study = own.read(Path(word))
    if study.name in STUDIES:
        raise BadInputError(f"study: {word}: {study.name} is the name of a study of ours; rename the file")
    return study.name, {study.name: study}


def question(name: str) -> str:
    """What a study asks."""
    return STUDIES[name].plan(STUDIES[name].SIZES["small"]).question


def listing() -> str:
    """Every study with its question, for a user who names none."""
    width = max(map(len, STUDIES))
    lines = [f"  {name:{width}}  {question(name)}" for name in STUDIES]
    usage = "usage: policylag study NAME [--size small|full] [--seeds N] [--only PATTERN] [--dry-run] ..."
    yours = "policylag study FILE.toml runs arms, seeds and claims of your own."
    return "\n".join([usage, "", *lines, "", "policylag study NAME --help lists its fields.", yours])


def must_be_a_studys(folder: Path) -> None:
    """Refuse, before any work, a folder in which a study could not be kept.

    Raises:
        BadInputError: it or a folder above it is a file or cannot be written to, or it holds something else.
    """
    with bad_input("out: "):
        must_be_makeable(folder, name="out")
        if folder.exists() and not (folder / "study.json").is_file():
            others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
            if others:
                raise BadInputError(
                    f"out: {folder} holds {others[0]} and no study: nothing is written over it"
                )


def _check(options: StudyOptions) -> None:
    if options.jobs is not None and options.jobs < 1:
        raise BadInputError(f"study: jobs must be at least 1, got {options.jobs}")
    if options.backend == "ray" and importlib.util.find_spec("ray") is None:
        raise BadInputError("study: backend ray is not installed; pip install 'policylag[ray]' adds it")


def _with_lengths(config: Any, options: StudyOptions) -> Any:
    pipeline = getattr(config, "pipeline", None)
    if isinstance(pipeline, PipelineConfig):
        return config.model_copy(update={"pipeline": with_lengths(pipeline, options)})
    if options.lengths_csv is not None:
        raise BadInputError(f"lengths_csv: this study takes no lengths, got {options.lengths_csv}")
    return config


def _chosen(arms: Sequence[str], only: Sequence[str]) -> Sequence[str]:
    """The arms that match a pattern; all if there is none."""
    patterns = [part.strip() for word in only for part in word.split(",") if part.strip()]
    for pattern in patterns:
        if not any(fnmatchcase(arm, pattern) for arm in arms):
            raise BadInputError(f"study: only {pattern!r} matches no arm; {_nearest(pattern, arms)}")
    return [arm for arm in arms if not patterns or any(fnmatchcase(arm, pattern) for pattern in patterns)]


def _nearest(pattern: str, arms: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern.lower(), arms, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = f" and {len(arms) - _LISTED} more (--dry-run lists all)" if len(arms) > _LISTED else ""
    return f"there are {', '.join(arms[:_LISTED])}{more}"
