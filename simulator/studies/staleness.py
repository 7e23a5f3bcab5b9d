"""Who learns from old data, who stalls, who collapses? Estimators by lag, in two regimes of drift.

What a mask or a clip sees is drift: how far the policy moves an update, times the lag. So every estimator
meets every lag at two learning rates: a gentle one, at which a mask of (0.7, 6) drops under 1 % of the tokens
at lag 16 as in SAO's paper, and a stressed one, at which it drops 5 to 20 %. They were chosen by that share
on one seed of 400 updates, before the study was run; each arm's share is reported with its result.

In an asynchronous pipeline GRPO has two bad choices: let a group wait for its slowest member, which
multiplies its lag by about three (the mean of the largest of 8 lognormal lengths), or mix versions inside the
group. The arms `waits` and `mixes` are those, at a mean lag of 16 for a single rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.lab.config import EstimatorName, LearnConfig
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan, claims_about
from simulator.studies.runs import imposed

CRITERIA: Final[Mapping[str, Any]] = {"metric": "accuracy", "target": 0.7, "chance": 0.1}
PAPER: Final = "Hou et al. 2026, arXiv 2607.07508"
_REGIMES: Final = ("gentle", "stressed")
_PICTURES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("score_by_factor", "Final accuracy by lag", {}),
    ("score_by_factor", "Masked share by lag", {"metric": "masked_fraction"}),
    ("survival", "", {}),
    ("drift_by_lag", "", {}),
)
_WAIT: Final = 3
"""Mean of the largest of 8 lengths over the mean length, for a lognormal of sigma 1: 3.08."""


@final
class StalenessStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimators: tuple[EstimatorName, ...] = ("grpo", "grpo_behaviour_clip", "grpo_dis", "token_tis", "sao")
    lags: tuple[int, ...] = (0, 4, 16, 64)
    """Imposed, in updates."""
    gentle_learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    stressed_learning_rate: Annotated[float, Field(gt=0)] = 4e-3
    updates: Annotated[int, Field(ge=1)] = 1000
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, StalenessStudy]] = {
    "small": StalenessStudy(),
    "full": StalenessStudy(
        estimators=(
            "grpo",
            "grpo_behaviour_clip",
            "grpo_dis",
            "token_tis",
            "sequence_tis",
            "icepop",
            "gspo",
            "cispo",
            "m2po",
            "decoupled_ppo",
            "sao",
            "sao_running_mean_128",
        ),
        lags=(0, 1, 4, 16, 32, 64, 128),
        seeds=20,
    ),
}


def plan(study: StalenessStudy) -> Plan:
    """Estimators by lag by regime, and the two choices of a group."""
    arms: dict[str, Callable[[int], LearnConfig]] = {}
    factors: dict[str, dict[str, float | str]] = {}
    rates = dict(zip(_REGIMES, (study.gentle_learning_rate, study.stressed_learning_rate), strict=True))
    for regime, rate in rates.items():
        for estimator in study.estimators:
            for lag in study.lags:
                arm = name(estimator, regime, lag)
                arms[arm] = partial(_run, study, estimator, rate, lag, 0)
                factors[arm] = {
                    "estimator": estimator,
                    "regime": regime,
                    "lag": lag,
                    "learning_rate": rate,
                }
        for choice, lag, spread in (("waits", 16 * _WAIT, 0), ("mixes", 16, 16)):
            arm = f"grpo_dis-{regime}-{choice}"
            arms[arm] = partial(_run, study, "grpo_dis", rate, lag, spread)
            factors[arm] = {"estimator": f"grpo_dis {choice}", "regime": regime, "learning_rate": rate}
    return Plan(
        name="staleness",
        title="Estimators by lag, in two regimes of drift",
        question="Who learns from old data, who stalls, who collapses?",
        arms=arms,
        factors=factors,
        criteria=CRITERIA,
        hypotheses=claims_about(HYPOTHESES, arms),
        pictures=[
            *(
                {
                    "kind": kind,
                    "line": "estimator",
                    **({"title": f"{title}, {regime}"} if title else {}),
                    "where": {"regime": regime, "estimator": list(study.estimators)},
                    **more,
                }
                for regime in _REGIMES
                for kind, title, more in _PICTURES
            )
        ],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def name(estimator: str, regime: str, lag: int) -> str:
    """An arm's."""
    return f"{estimator}-{regime}-lag{lag}"


def _run(
    study: StalenessStudy, estimator: EstimatorName, rate: float, lag: int, spread: int, seed: int
) -> LearnConfig:
    return imposed(
        estimator,
        seed=seed,
        lag_updates=lag,
        imposed_lag_spread=spread,
        updates=study.updates,
        learning_rate=rate,
    )


HYPOTHESES: Final = (
    Hypothesis(
        id="S1",
        claim="At lag 64 and stressed, GRPO as published ends less accurate than with the double-sided mask",
        source=f"{PAPER}, main table: GRPO against GRPO + DIS",
        metric="final_score",
        kind="paired_difference",
        better_arm=name("grpo_dis", "stressed", 64),
        worse_arm=name("grpo", "stressed", 64),
    ),
    Hypothesis(
        id="S2",
        claim="At lag 64 and stressed, GRPO collapses more often than with the double-sided mask",
        source=f"{PAPER}: GRPO collapses at about step 160, GRPO + DIS does not",
        metric="collapsed",
        kind="event_share",
        better_arm=name("grpo_dis", "stressed", 64),
        worse_arm=name("grpo", "stressed", 64),
        direction="lower",
    ),
    Hypothesis(
        id="S3",
        claim="In the paper's regime at lag 16, the double-sided mask gains more than 0.01 over GRPO without",
        source="On GSM8K at lag 4 it masked 0.03 % of the tokens and made no measurable difference",
        metric="final_score",
        kind="paired_difference",
        better_arm=name("grpo_dis", "gentle", 16),
        worse_arm=name("grpo", "gentle", 16),
        minimum_difference=0.01,
    ),
    Hypothesis(
        id="S4",
        claim="At lag 16 in the paper's regime, SAO ends more accurate than GRPO with the double-sided mask",
        source=f"{PAPER}, main table: SAO above GRPO + DIS",
        metric="final_score",
        kind="paired_difference",
        better_arm=name("sao", "gentle", 16),
        worse_arm=name("grpo_dis", "gentle", 16),
    ),
    Hypothesis(
        id="S5",
        claim="Stressed, a group that mixes versions ends more accurate than one that waits thrice as long",
        source="ours: GRPO's two choices in an asynchronous pipeline",
        metric="final_score",
        kind="paired_difference",
        better_arm="grpo_dis-stressed-mixes",
        worse_arm="grpo_dis-stressed-waits",
    ),
    Hypothesis(
        id="S6",
        claim="At lag 64 and stressed, a clip against the behaviour policy beats the double-sided mask",
        source="ours: the quick study found so where lag emerges (H6 contradicted)",
        metric="final_score",
        kind="paired_difference",
        better_arm=name("grpo_behaviour_clip", "stressed", 64),
        worse_arm=name("grpo_dis", "stressed", 64),
    ),
    Hypothesis(
        id="S7",
        claim="At lag 64 and stressed, truncated token weights end more accurate than no correction",
        source="Yao et al. 2025 (TIS); a small numpy world at learning rate 4e-3",
        metric="final_score",
        kind="paired_difference",
        better_arm=name("token_tis", "stressed", 64),
        worse_arm=name("grpo", "stressed", 64),
    ),
)
