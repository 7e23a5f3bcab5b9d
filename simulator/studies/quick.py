"""The first study: does what SAO's paper claims hold where lag comes from a pipeline? Four arms, one traffic.

All arms take 128 rollouts an update and four updates a batch from the same engines. They differ in the
baseline (a group of 8, which waits for its slowest member, or a critic, which costs trainer time) and in
what the ratio is taken against and how it is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.config import PipelineConfig
from simulator.experiments import groups, single
from simulator.lab.config import EstimatorName, LearnConfig
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan

PAPER: Final = "Hou et al. 2026, arXiv 2607.07508"
TITLE: Final = "GRPO and SAO under one asynchronous pipeline"
QUESTION: Final = "Does what SAO's paper claims hold where lag comes from a pipeline?"
ARMS: Final[Mapping[str, EstimatorName]] = {
    "grpo": "grpo",
    "grpo-behaviour-clip": "grpo_behaviour_clip",
    "grpo-dis": "grpo_dis",
    "sao": "sao",
}
CRITERIA: Final[Mapping[str, Any]] = {"metric": "accuracy", "target": 0.7, "chance": 0.1}
"""What counts as learned; the definitions of collapse and stall are those of `analysis.measures.collapse`."""


@final
class QuickStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pipeline: PipelineConfig = groups()
    """Of the three group arms; its seed is the first one. SAO's has groups of one and a critic."""
    critic_update_s: Annotated[float, Field(ge=0)] = single().critic_update_s
    """One critic update of SAO. By default as long as a policy update: a critic of the policy's size."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    critic_learning_rate_ratio: Annotated[float, Field(gt=0)] = 5.0
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 8


SIZES: Final[Mapping[str, QuickStudy]] = {"small": QuickStudy(), "full": QuickStudy(seeds=32)}
"""Equal runs, more seeds: at 32 an interval is half as wide as at 8."""


def plan(study: QuickStudy) -> Plan:
    """Four arms under equal traffic."""
    return Plan(
        name="quick",
        title=TITLE,
        question=QUESTION,
        arms={arm: partial(_config, study, arm) for arm in ARMS},
        factors={
            arm: {"estimator": estimator, "group_size": _group_size(study, arm)}
            for arm, estimator in ARMS.items()
        },
        criteria=CRITERIA,
        hypotheses=HYPOTHESES,
        seeds=study.seeds,
        first_seed=study.pipeline.seed,
    )


def _config(study: QuickStudy, arm: str, seed: int) -> LearnConfig:
    changes: dict[str, object] = {"seed": seed}
    if ARMS[arm] == "sao":
        changes |= {
            "group_size": _group_size(study, arm),
            "length_correlation": 0.0,  # nothing is shared by a prompt's only rollout
            "critic_updates": single().critic_updates,
            "critic_update_s": study.critic_update_s,
        }
    # Validated anew: a change to the shared pipeline may be impossible for one arm.
    pipeline = PipelineConfig.model_validate(study.pipeline.model_dump() | changes)
    return LearnConfig(
        pipeline=pipeline,
        estimator=ARMS[arm],
        learning_rate=study.learning_rate,
        critic_learning_rate_ratio=study.critic_learning_rate_ratio,
    )


def _group_size(study: QuickStudy, arm: str) -> int:
    return 1 if ARMS[arm] == "sao" else study.pipeline.group_size


HYPOTHESES: Final = (
    Hypothesis(
        id="H1",
        claim="GRPO with the double-sided mask ends more accurate than GRPO as published",
        source=f"{PAPER}, main table: GRPO + DIS above GRPO",
        metric="final_score",
        kind="paired_difference",
        better_arm="grpo-dis",
        worse_arm="grpo",
    ),
    Hypothesis(
        id="H2",
        claim="GRPO as published collapses more often than GRPO with the double-sided mask",
        source=f"{PAPER}: GRPO collapses at about step 160, GRPO + DIS does not",
        metric="collapsed",
        kind="event_share",
        better_arm="grpo-dis",
        worse_arm="grpo",
        direction="lower",
    ),
    Hypothesis(
        id="H3",
        claim="SAO ends more accurate than GRPO with the double-sided mask",
        source=f"{PAPER}, main table: SAO above GRPO + DIS",
        metric="final_score",
        kind="paired_difference",
        better_arm="sao",
        worse_arm="grpo-dis",
    ),
    Hypothesis(
        id="H4",
        claim="SAO reaches the target in fewer simulated hours than GRPO with the double-sided mask",
        source=f"{PAPER}: no group has to wait; the comparison in hours is ours",
        metric="hours_to_target",
        kind="time_to_target",
        better_arm="sao",
        worse_arm="grpo-dis",
        direction="lower",
    ),
    Hypothesis(
        id="H5",
        claim="SAO's rollouts are fresher: lower mean lag than GRPO with the double-sided mask",
        source=f"{PAPER}: single rollouts are trainable the moment they complete",
        metric="mean_lag",
        kind="paired_difference",
        better_arm="sao",
        worse_arm="grpo-dis",
        direction="lower",
    ),
    Hypothesis(
        id="H6",
        claim="GRPO with the double-sided mask ends more accurate than with the one-sided clip",
        source=f"{PAPER}: why the mask is double-sided; this control is ours",
        metric="final_score",
        kind="paired_difference",
        better_arm="grpo-dis",
        worse_arm="grpo-behaviour-clip",
    ),
)
