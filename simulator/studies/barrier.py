"""What does the group barrier cost, in hours and in machine time? 16 x 8 rollouts against 128 x 1.

Equal machines, equal rollouts an update. A group waits for its slowest member, and its data is older; SAO
waits for nobody and trains a critic twice an update, for which it is charged as long as for the policy's
update: the comparison that its paper leaves out. The world is carry addition, where a small language model
improves from a warm start; the learning rate is one at which SAO masks about 1 % of its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.lab.config import EstimatorName, LearnConfig
from simulator.lab.worlds import CarryAdditionWorld
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan, claims_about
from simulator.studies.runs import emergent

PAPER: Final = "Hou et al. 2026, arXiv 2607.07508"
CRITERIA: Final[Mapping[str, Any]] = {"metric": "accuracy", "target": 0.75, "chance": 0.0, "final_share": 0.1}


@final
class BarrierStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimators: tuple[EstimatorName, ...] = ("grpo", "grpo_dis", "sao")
    world: CarryAdditionWorld = CarryAdditionWorld()
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    updates: Annotated[int, Field(ge=1)] = 600
    """A multiple of four, the updates of a batch."""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, BarrierStudy]] = {
    "small": BarrierStudy(),
    "full": BarrierStudy(
        estimators=("grpo", "grpo_behaviour_clip", "grpo_dis", "sao", "sao_running_mean_128"),
        updates=2000,
        seeds=20,
    ),
}


def plan(study: BarrierStudy) -> Plan:
    """One arm an estimator, each under the pipeline that suits it."""
    arms = {estimator.replace("_", "-"): estimator for estimator in study.estimators}
    return Plan(
        name="barrier",
        title="The group barrier, in hours and in machine time",
        question="What costs more: that a group waits, or the critic that makes waiting needless?",
        arms={arm: partial(_run, study, estimator) for arm, estimator in arms.items()},
        factors={arm: {"estimator": estimator} for arm, estimator in arms.items()},
        criteria=CRITERIA,
        hypotheses=claims_about(HYPOTHESES, arms),
        pictures=[{"kind": "curves_by_arm", "x": x} for x in ("version", "hours", "compute_hours")],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def _run(study: BarrierStudy, estimator: EstimatorName, seed: int) -> LearnConfig:
    return emergent(
        estimator,
        seed=seed,
        updates=study.updates,
        learning_rate=study.learning_rate,
        world=study.world,
    )


HYPOTHESES: Final = (
    Hypothesis(
        id="B1",
        claim="SAO's rollouts are fresher than GRPO's: lower mean lag on equal machines",
        source=f"{PAPER}: single rollouts are trainable the moment they complete",
        metric="mean_lag",
        kind="paired_difference",
        better_arm="sao",
        worse_arm="grpo-dis",
        direction="lower",
    ),
    Hypothesis(
        id="B2",
        claim="SAO reaches the target in fewer simulated hours than GRPO with the double-sided mask",
        source="ours: the comparison in hours that the paper leaves out",
        metric="hours_to_target",
        kind="time_to_target",
        better_arm="sao",
        worse_arm="grpo-dis",
        direction="lower",
    ),
    Hypothesis(
        id="B3",
        claim="SAO ends more accurate than GRPO with the double-sided mask after equal updates",
        source=f"{PAPER}, main table",
        metric="final_score",
        kind="paired_difference",
        better_arm="sao",
        worse_arm="grpo-dis",
    ),
    Hypothesis(
        id="B4",
        claim="GRPO with the double-sided mask ends more accurate than GRPO as published",
        source=f"{PAPER}, main table",
        metric="final_score",
        kind="paired_difference",
        better_arm="grpo-dis",
        worse_arm="grpo",
    ),
    Hypothesis(
        id="B5",
        claim="For the same updates SAO spends more machine hours: its critic costs more than waiting does",
        source="ours",
        metric="compute_hours",
        kind="paired_difference",
        better_arm="grpo-dis",
        worse_arm="sao",
        direction="lower",
    ),
)
