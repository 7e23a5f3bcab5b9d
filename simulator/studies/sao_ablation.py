"""Which parts of SAO carry it? One part exchanged at a time, in an agentic world.

Tool lookup: a small language model follows pointers over up to six turns of calls and observations. The
learning rate is one at which SAO masks under 1 % of its tokens, as its paper reports. Every arm has the same
traffic, but for K, which costs trainer time. One pair of arms has a world of its own, where an observation is
three times as long as what is said in a turn: if stepping through observations costs anything, then there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.lab.config import EstimatorName, LearnConfig
from simulator.lab.worlds import ToolLookupWorld
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan
from simulator.studies.runs import emergent

PAPER: Final = "Hou et al. 2026, arXiv 2607.07508"
CRITERIA: Final[Mapping[str, Any]] = {
    "metric": "accuracy",
    "target": 0.6,
    "chance": 0.0,
    "final_share": 0.15,
}


@final
class AblationStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    world: ToolLookupWorld = ToolLookupWorld(most_turns=6, width=64, warm_start_accuracy=0.3)
    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    few_pretraining_rollouts: Annotated[int, Field(ge=1)] = 2048
    many_pretraining_rollouts: Annotated[int, Field(ge=1)] = 16384
    distinct_prompts: Annotated[int, Field(ge=1)] = 1024
    """Of the arm whose baseline is each prompt's running mean: elsewhere no prompt comes back."""
    long_observation_tokens: Annotated[int, Field(ge=1, le=64)] = 9
    """Of the two arms whose observations are long."""
    updates: Annotated[int, Field(ge=1)] = 160
    """A multiple of four, the updates of a batch."""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 3
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, AblationStudy]] = {
    "small": AblationStudy(),
    "full": AblationStudy(world=ToolLookupWorld(warm_start_accuracy=0.3), updates=1000, seeds=20),
}


def plan(study: AblationStudy) -> Plan:
    """SAO, and SAO with one part exchanged."""
    arms = _arms(study)
    return Plan(
        name="sao-ablation",
        title="SAO with one part exchanged",
        question="Which parts of SAO carry it: the critic's recipe, the mask, the credit by token?",
        arms={arm: partial(_run, study, *made) for arm, made in arms.items()},
        factors={arm: {"estimator": estimator} for arm, (estimator, _, _) in arms.items()},
        criteria=CRITERIA,
        hypotheses=HYPOTHESES,
        pictures=[
            {"kind": "curves_by_arm", "arms": [arm for arm in arms if arm in shown], "title": title}
            for title, shown in _FIGURES.items()
        ],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def _arms(study: AblationStudy) -> dict[str, tuple[EstimatorName, dict[str, Any], dict[str, Any]]]:
    """Estimator, fields of its pipeline, fields of its run."""
    long = {"world": study.world.model_copy(update={"observation_tokens": study.long_observation_tokens})}
    return {
        "sao": ("sao", {}, {}),
        "k-1": ("sao", {"critic_updates": 1}, {}),
        "k-4": ("sao", {"critic_updates": 4}, {}),
        "full-critic": ("sao_full_critic", {}, {}),
        "pretrained-few": ("sao", {}, {"value_pretraining_rollouts": study.few_pretraining_rollouts}),
        "pretrained-many": ("sao", {}, {"value_pretraining_rollouts": study.many_pretraining_rollouts}),
        "values-after": ("sao_values_after", {}, {}),
        "no-warm-up": ("sao_no_warm_up", {}, {}),
        "whitened": ("sao_whitened", {}, {}),
        "alpha-0.5": ("sao_alpha_0.5", {}, {}),
        "alpha-5": ("sao_alpha_5", {}, {}),
        "step-mean": ("sao_step_mean", {}, {}),
        "step-last": ("sao_step_last", {}, {}),
        "running-mean-8": ("sao_running_mean", {}, {"distinct_prompts": study.distinct_prompts}),
        "running-mean-128": ("sao_running_mean_128", {}, {}),
        "no-dis": ("vapo_alpha_1.5", {}, {}),
        "dis-only": ("sao_dis_only", {"critic_updates": 1}, {}),
        "undetached": ("sao_undetached", {}, {}),
        "long-observations": ("sao", {}, long),
        "long-stepped-through": ("sao_through_observations", {}, long),
    }


def _run(
    study: AblationStudy,
    estimator: EstimatorName,
    pipeline: dict[str, Any],
    changes: dict[str, Any],
    seed: int,
) -> LearnConfig:
    return emergent(
        estimator,
        seed=seed,
        updates=study.updates,
        pipeline=pipeline,
        **{"learning_rate": study.learning_rate, "world": study.world, **changes},
    )


_FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "The critic's recipe": ("sao", "k-1", "k-4", "full-critic", "values-after", "no-warm-up"),
    "Baselines": ("sao", "pretrained-few", "pretrained-many", "running-mean-8", "running-mean-128"),
    "Credit": ("sao", "whitened", "alpha-0.5", "alpha-5", "step-mean", "step-last"),
    "Long observations": ("long-observations", "long-stepped-through"),
    "The mask": ("sao", "no-dis", "dis-only", "undetached"),
}


def _better(number: int, arm: str, what: str, source: str) -> Hypothesis:
    return Hypothesis(
        id=f"A{number}",
        claim=f"SAO ends more accurate than {what}",
        source=source,
        metric="final_score",
        kind="paired_difference",
        better_arm="sao",
        worse_arm=arm,
    )


HYPOTHESES: Final = (
    _better(1, "k-1", "with one critic update", f"{PAPER}: 97.3 against 95.0 on AIME25"),
    _better(2, "full-critic", "with a critic trained in all its parts", f"{PAPER}: 97.3 against 90.6"),
    _better(3, "no-dis", "with a clip against pi_old in place of the mask", f"{PAPER}: 97.3 against 91.3"),
    _better(4, "running-mean-8", "with a prompt's running mean for a critic", f"{PAPER}: 97.3 against 79.8"),
    _better(5, "step-mean", "with credit by step, by mean value", f"{PAPER}: 89.8 against 85.8"),
    _better(6, "step-last", "with credit by step, by last value", f"{PAPER}: 89.8 against 87.3"),
    _better(7, "dis-only", "with a plain critic", f"{PAPER}: 97.3 against 94.2"),
    _better(8, "values-after", "with values from after the fit", "ours: they shrink the advantage"),
    _better(9, "undetached", "with the mask's factor in the gradient", "ours: its gradient changes sign"),
    Hypothesis(
        id="A10",
        claim="A critic pretrained on a few thousand rollouts ends more accurate than one that is not",
        source=f"{PAPER}: pretraining is called essential",
        metric="final_score",
        kind="paired_difference",
        better_arm="pretrained-few",
        worse_arm="sao",
    ),
    Hypothesis(
        id="A11",
        claim="A running mean over all prompts ends less accurate than SAO",
        source=f"{PAPER}, online setting",
        metric="final_score",
        kind="paired_difference",
        better_arm="sao",
        worse_arm="running-mean-128",
    ),
    Hypothesis(
        id="A12",
        claim="Where observations are long, skipping them ends more accurate than stepping through them",
        source="ours: with a known truth, advantages correlate with it at 0.51 skipping, 0.46 stepping",
        metric="final_score",
        kind="paired_difference",
        better_arm="long-observations",
        worse_arm="long-stepped-through",
    ),
)
