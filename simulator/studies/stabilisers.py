"""What saves GRPO where it collapses? Corrections and stabilisers at a lag and a rate that break it.

A batch has one update, so a ratio to pi_old is 1 whatever the lag: estimators published with it come as they
are, and once more with the ratio to the behaviour policy. (The second form of GSPO, CISPO and M2PO was added
after a first run had shown their first form to be GRPO's equal, to the digit. In that run VCPO's baseline was
the group's mean, as `vcpo_mean_baseline` has it now.)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.lab.config import EstimatorName, LearnConfig
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan
from simulator.studies.runs import imposed

CRITERIA: Final[Mapping[str, Any]] = {"metric": "accuracy", "target": 0.7, "chance": 0.1}


@final
class StabiliserStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimators: tuple[EstimatorName, ...] = (
        "grpo",
        "grpo_gac",
        "grpo_reset",
        "vcpo",
        "m2po",
        "m2po_behaviour",
        "decoupled_ppo",
        "token_tis",
        "sequence_tis",
        "icepop",
        "gspo",
        "gspo_behaviour",
        "cispo",
        "cispo_behaviour",
        "grpo_behaviour_clip",
        "grpo_dis",
        "sao",
        "vcpo_mean_baseline",
    )
    lag: Annotated[int, Field(ge=0)] = 64
    """Imposed, in updates."""
    learning_rate: Annotated[float, Field(gt=0)] = 8e-3
    updates: Annotated[int, Field(ge=1)] = 800
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 5
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, StabiliserStudy]] = {
    "small": StabiliserStudy(),
    "full": StabiliserStudy(updates=1500, seeds=20),
}


def plan(study: StabiliserStudy) -> Plan:
    """Every estimator in the same trouble."""
    arms = {estimator.replace("_", "-"): estimator for estimator in study.estimators}
    saved = [arm for arm in arms if arm != "grpo"]
    return Plan(
        name="stabilisers",
        title="What saves GRPO where it collapses?",
        question="Which corrections and stabilisers survive where uncorrected GRPO collapses?",
        arms={arm: partial(_run, study, estimator) for arm, estimator in arms.items()},
        factors={
            arm: {"estimator": estimator, "lag": study.lag, "learning_rate": study.learning_rate}
            for arm, estimator in arms.items()
        },
        criteria=CRITERIA,
        hypotheses=[_survives(arm, number) for number, arm in enumerate(saved, 1)] if "grpo" in arms else [],
        pictures=[{"kind": "curves_by_arm"}, {"kind": "survival"}],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def _run(study: StabiliserStudy, estimator: EstimatorName, seed: int) -> LearnConfig:
    return imposed(
        estimator,
        seed=seed,
        lag_updates=study.lag,
        updates=study.updates,
        learning_rate=study.learning_rate,
    )


def _survives(arm: str, number: int) -> Hypothesis:
    return Hypothesis(
        id=f"T{number}",
        claim=f"{arm} ends at least 0.1 more accurate than uncorrected GRPO, which collapses here",
        source="its authors, of their own setting",
        metric="final_score",
        kind="paired_difference",
        better_arm=arm,
        worse_arm="grpo",
        minimum_difference=0.1,
    )
