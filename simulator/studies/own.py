"""A study of the user's own: a file names arms, what varies and what is claimed; the rest is as for ours."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, final

import tyro
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from simulator.command_line import one_line
from simulator.config_file import merged, read_fields
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.own_arms import arms_of, configuration, factors_of, varied
from simulator.studies.plan import Plan
from simulator.words import unknown

SUFFIXES: Final = (".toml", ".json")
_CLAIM: Final = TypeAdapter(Hypothesis)
_CLAIMED: Final[Mapping[str, Any]] = {"source": "ours", "kind": "paired_difference"}
Table = tyro.conf.Suppress[dict[str, Any]]
"""What only a file can say."""


@final
class OwnStudy(BaseModel):
    """What a file says. It is kept as the study's `config.json`, which is such a file again."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    title: str = ""
    """Of the report; by default the file's name."""
    question: str = ""
    """That the study answers; by default its title."""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    """Runs of each arm."""
    first_seed: Annotated[int, Field(ge=0)] = 0
    every: Table = {}
    """Fields that all arms have, unless an arm says otherwise."""
    arms: tyro.conf.Suppress[dict[str, dict[str, Any]]] = {}
    """By name, fields of each."""
    vary: Table = {}
    """Fields with lists of values: every arm is run with every combination."""
    claims: tyro.conf.Suppress[list[dict[str, Any]]] = []
    """Fields of `Hypothesis`; a paired difference, of ours, unless it says otherwise."""
    criteria: Table = {}
    """Fields of `analysis.measures.collapse.Criteria`: target, chance and what counts as a collapse."""
    pictures: tyro.conf.Suppress[list[dict[str, Any]]] = []
    """Figures beside the usual ones: `kind` and its options (`analysis.pictures.registered`)."""


@final
@dataclass(frozen=True, slots=True)
class FromFile:
    """A file as a study like ours (`simulator.studies.every.Study`)."""

    name: str
    own: OwnStudy

    @property
    def SIZES(self) -> Mapping[str, OwnStudy]:  # noqa: N802 - called so in a study's module
        """It has one."""
        return {"small": self.own}

    def plan(self, own: OwnStudy) -> Plan:
        """The grid of runs.

        Raises:
            ValueError: an arm, a field, a value or a claim cannot be; it is named.
        """
        vary = list(varied(own.vary))
        if not (own.arms or vary):
            raise ValueError("arms: there are none, and nothing varies; a study compares")
        title, arms = own.title or self.name, arms_of(own.arms, vary)
        return Plan(
            name=self.name,
            title=title,
            question=own.question or title,
            arms={
                arm: partial(configuration, arm, merged(own.every, fields)) for arm, fields in arms.items()
            },
            factors=factors_of(arms, vary),
            criteria=own.criteria,
            hypotheses=claims(own),
            pictures=own.pictures or _pictures(own.arms, vary),
            seeds=own.seeds,
            first_seed=own.first_seed,
        )


def is_file(word: str) -> bool:
    """Does this word of a command line name a file, and no study of ours?"""
    return Path(word).suffix.lower() in SUFFIXES


def read(path: Path) -> FromFile:
    """What a file says.

    Raises:
        OSError, ValueError: it cannot be read, is no TOML or JSON, or says what cannot be.
    """
    # A study's own config.json is called as the study's folder.
    stem = path.resolve().parent.name if path.name == "config.json" else path.stem
    name = re.sub(r"[^A-Za-z0-9.]+", "-", stem).strip("-.") or "study"
    return FromFile(name, OwnStudy.model_validate(read_fields(path)))


def claims(own: OwnStudy) -> list[Hypothesis]:
    """What it claims.

    Raises:
        ValueError: a field or value of a claim cannot be; the claim is named.
    """
    return [_claim(place, said) for place, said in enumerate(own.claims, start=1)]


def _claim(place: int, said: Mapping[str, Any]) -> Hypothesis:
    known = [field.name for field in dataclasses.fields(Hypothesis)]
    which = f"claims.{said.get('id', place)}"
    for name in said:
        if name not in known:
            raise ValueError(f"{which}: {unknown('field', name, known)}")
    try:
        return _CLAIM.validate_python({**_CLAIMED, "id": f"C{place}", **said})
    except ValidationError as wrong:
        raise ValueError(one_line(wrong, which)) from None


def _pictures(arms: Mapping[str, Any], vary: Any) -> list[dict[str, Any]]:
    """The final score and the lag against each field that takes numbers, while no other varies with it."""
    if len(vary) != 1 or len(arms) > 1:
        return []
    (key, values), *_ = vary
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return []
    factor = key.rpartition(".")[2]
    return [{"kind": "score_by_factor", "factor": factor, "metric": m} for m in ("final_score", "mean_lag")]
