"""What does a model never learn, if rollouts are dropped for their age and hard prompts are long?

Carry addition: sums of more digits are harder, and their rollouts longer. Lengths vary little otherwise (a
third of their mean), so age goes with difficulty. A rule that drops what is older than so many updates then
trains on easy sums. The score is the accuracy on sums whose rollouts are longer than the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.config import BoundedLag, DropByAge, Unbounded
from simulator.lab.config import EstimatorName, LearnConfig
from simulator.lab.worlds import CarryAdditionWorld
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan, claims_about
from simulator.studies.runs import emergent
from simulator.world.lengths import LogNormal

CRITERIA: Final[Mapping[str, Any]] = {
    "metric": "accuracy_long",
    "target": 0.6,
    "chance": 0.0,
    "final_share": 0.1,
}
_APPLIED_COMPUTE: Final = "Dong, Goel, Yu 2026 (Applied Compute): filtering by age trains on short responses"


@final
class SelectionStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimator: EstimatorName = "grpo_dis"
    world: CarryAdditionWorld = CarryAdditionWorld()
    max_lag_updates: tuple[int, ...] = (8, 12)
    """Of the arms that drop what is older."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    updates: Annotated[int, Field(ge=1)] = 480
    """A multiple of four, the updates of a batch."""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, SelectionStudy]] = {
    "small": SelectionStudy(),
    "full": SelectionStudy(max_lag_updates=(6, 8, 10, 12, 16), updates=1500, seeds=20),
}


def plan(study: SelectionStudy) -> Plan:
    """The same traffic under rules that drop, and under rules that do not."""
    rules: dict[str, Mapping[str, Any]] = {"keep-all": {"staleness": Unbounded()}}
    rules |= {
        f"drop-older-than-{age}": {"staleness": DropByAge(max_lag_updates=age)}
        for age in study.max_lag_updates
    }
    rules["gate"] = {"staleness": BoundedLag(eta_batches=2)}
    rules["drop-oldest"] = {"staleness": Unbounded(), **_FULL_QUEUE}
    return Plan(
        name="selection",
        title="What is dropped for its age is what is hard",
        question="What does a model never learn, if old rollouts are dropped and hard prompts are long?",
        arms={arm: partial(_run, study, fields) for arm, fields in rules.items()},
        factors={arm: {"rule": arm} for arm in rules},
        criteria=CRITERIA,
        hypotheses=claims_about(HYPOTHESES, rules),
        pictures=[
            {"kind": "curves_by_arm", "metric": metric}
            for metric in ("accuracy_long", "accuracy_short", "accuracy")
        ],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


_FULL_QUEUE: Final[Mapping[str, Any]] = {"queue_capacity_rollouts": 512, "policy_update_s": 9.0}
"""Engines outrun the trainer, and the queue throws out its oldest: no rule looks at anybody's length."""


def _run(study: SelectionStudy, fields: Mapping[str, Any], seed: int) -> LearnConfig:
    lengths = LogNormal(mean_tokens=1500, sd_tokens=500)
    return emergent(
        study.estimator,
        seed=seed,
        updates=study.updates,
        pipeline={"lengths": lengths, **fields},
        learning_rate=study.learning_rate,
        world=study.world,
    )


HYPOTHESES: Final = (
    Hypothesis(
        id="D1",
        claim="Dropping what is older than 8 updates ends less accurate on long sums than keeping all",
        source=_APPLIED_COMPUTE,
        metric="final_accuracy_long",
        kind="paired_difference",
        better_arm="keep-all",
        worse_arm="drop-older-than-8",
    ),
    Hypothesis(
        id="D2",
        claim="A gate of two batches ends more accurate on long sums than dropping what is older than 8",
        source="ours: a gate makes data fresher without looking at its length",
        metric="final_accuracy_long",
        kind="paired_difference",
        better_arm="gate",
        worse_arm="drop-older-than-8",
    ),
    Hypothesis(
        id="D3",
        claim="Dropping the oldest of a full queue ends more accurate on long sums than dropping by age",
        source=f"{_APPLIED_COMPUTE}; drop-oldest is unbiased",
        metric="final_accuracy_long",
        kind="paired_difference",
        better_arm="drop-oldest",
        worse_arm="drop-older-than-8",
    ),
    Hypothesis(
        id="D4",
        claim="On short sums, too, dropping what is older than 8 costs more than 0.03",
        source="ours",
        metric="final_accuracy_short",
        kind="paired_difference",
        better_arm="keep-all",
        worse_arm="drop-older-than-8",
        minimum_difference=0.03,
    ),
)
