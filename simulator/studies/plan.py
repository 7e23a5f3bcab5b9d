"""What is a study? A grid of runs, and what is claimed of it, as one record fixed before the first run.

A study is a module of this folder: a configuration (what a user may change), `SIZES` (configurations by
name; "small" is the default) and a function `plan` from a configuration to a `Plan`. `every` lists them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from simulator.studies.cells import Cell, RunConfig
from simulator.studies.hypothesis import Hypothesis

Setting: TypeAlias = float | str
"""What a factor is set to in one arm."""

# An arm's name is part of a folder's name, and a glob of `--only` may stand for it.
_ARM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]*")
_LONGEST: Final = 200
"""Letters of such a name: a folder's has 255, and seed and digest follow."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A study, ready to run: every arm with every seed.

    Raises:
        ValueError: no arm or no seed, an arm's name that makes no folder, a factor or a claim of an arm that
            is not there, a claim's id twice, or a picture without a kind.
    """

    name: str
    title: str
    question: str
    """One sentence that ends in a question mark; `policylag study` lists it."""
    arms: Mapping[str, Callable[[int], RunConfig]]
    """From a seed to the run's configuration, in the order in which arms are shown."""
    criteria: Mapping[str, Any]
    """What counts as learned; fields of `analysis.measures.collapse.Criteria`."""
    hypotheses: Sequence[Hypothesis] = ()
    factors: Mapping[str, Mapping[str, Setting]] = dataclasses.field(default_factory=dict)
    """Of each arm, what was varied and to which value: {"estimator": "grpo", "lag": 16}."""
    pictures: Sequence[Mapping[str, Any]] = ()
    """Figures that belong to this study: {"kind": ..., and the options of that kind}."""
    seeds: int
    first_seed: int = 0

    def __post_init__(self) -> None:
        if not self.arms or self.seeds < 1:
            raise ValueError(f"study {self.name!r} has {len(self.arms)} arms and {self.seeds} seeds: no run")
        for arm in self.arms:
            if not _ARM.fullmatch(arm):
                raise ValueError(f"study {self.name!r}: {arm!r} is no name for an arm: {_ARM.pattern}")
            if len(arm) > _LONGEST:
                raise ValueError(
                    f"study {self.name!r}: an arm's name is longer than {_LONGEST} letters: {arm[:40]!r}..."
                )
        for claim in self.hypotheses:
            self._check_arms(_named(claim), claim.id)
        self._check_arms(set(self.factors), "factors")
        ids = [claim.id for claim in self.hypotheses]
        if len(set(ids)) < len(ids):
            raise ValueError(f"study {self.name!r}: an id is there twice: {ids}")
        for picture in self.pictures:
            if not isinstance(picture.get("kind"), str):
                raise ValueError(f"study {self.name!r}: a picture without a kind: {dict(picture)}")

    def _check_arms(self, named: set[Any], by: str) -> None:
        unknown = named - set(self.arms)
        if unknown:
            raise ValueError(
                f"study {self.name!r}: {by} names {sorted(unknown)}; its arms are {list(self.arms)}"
            )


def claims_about(claims: Sequence[Hypothesis], arms: Container[str]) -> list[Hypothesis]:
    """Those of which every arm is there: a configuration may leave arms out."""
    return [claim for claim in claims if all(arm in arms for arm in _named(claim))]


def _named(claim: Hypothesis) -> set[str]:
    return {arm for arm in (claim.better_arm, claim.worse_arm, *claim.arms) if arm}


def cells(plan: Plan) -> list[Cell]:
    """Every run, seed by seed, so that an interrupted study has compared something.

    Raises:
        ValueError: an arm cannot be had with these settings, or does not take its seed.
    """
    seeds = range(plan.first_seed, plan.first_seed + plan.seeds)
    made = [
        (seed, Cell(arm=arm, config=configure(seed)))
        for seed in seeds
        for arm, configure in plan.arms.items()
    ]
    for seed, cell in made:
        if cell.seed != seed:
            raise ValueError(
                f"study {plan.name!r}: {cell.arm} ran seed {cell.seed} where {seed} was asked for"
            )
    return [cell for _, cell in made]


def registration(plan: Plan) -> dict[str, object]:
    """What is fixed before the first run: claims, definitions, and which runs count. For `study.json`."""
    return {
        "name": plan.name,
        "title": plan.title,
        "question": plan.question,
        "arms": list(plan.arms),
        "factors": {arm: dict(settings) for arm, settings in plan.factors.items()},
        "criteria": dict(plan.criteria),
        "hypotheses": [dataclasses.asdict(hypothesis) for hypothesis in plan.hypotheses],
        "pictures": [dict(picture) for picture in plan.pictures],
        "runs": [f"cells/{cell.name}" for cell in cells(plan)],
    }
