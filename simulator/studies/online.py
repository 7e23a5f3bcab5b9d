"""Who follows a taste that changes without notice? Single rollouts, no prompt twice, three styles in turn.

The paper's online setting: groups do not exist, so a baseline comes from a value model or from a running mean
of the last 128 rewards. Two learning rates: one at which SAO masks under 1 % of its tokens, and three times
that. The score is the reward of the rollouts that are trained on; the shifts are at the prompts that the
updates named in the criteria train on, were there no lag.

A first run, on seeds 0 to 2, suggested that at the fast rate only the value model finds the new taste. What
some seeds suggested is judged on others: `--size confirm` registers that claim, and runs seeds from 100 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.lab.config import EstimatorName, LearnConfig
from simulator.lab.worlds import StyleDriftWorld
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan, claims_about
from simulator.studies.runs import emergent

PAPER: Final = "Hou et al. 2026, arXiv 2607.07508"
_ROLLOUTS: Final = 128
UNSEEN_SEED: Final = 100
"""From here on no seed had been looked at when the claims of `SUGGESTED` were written down."""


@final
class OnlineStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimators: tuple[EstimatorName, ...] = ("sao", "sao_running_mean_128", "reinforce_pp")
    gentle_learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    fast_learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    shift_updates: tuple[int, int] = (160, 320)
    """Updates at which the rewarded style changes."""
    updates: Annotated[int, Field(ge=1)] = 480
    """A multiple of four, the updates of a batch."""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    first_seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _shifts_happen(self) -> Self:
        if not 0 < self.shift_updates[0] < self.shift_updates[1] < self.updates:
            raise ValueError(f"shift_updates {self.shift_updates} must rise within {self.updates} updates")
        return self

    @property
    def world(self) -> StyleDriftWorld:
        shifts = tuple(_ROLLOUTS * update for update in self.shift_updates)
        return StyleDriftWorld(shifts=shifts, warm_start_accuracy=0.3)


SIZES: Final[Mapping[str, OnlineStudy]] = {
    "small": OnlineStudy(),
    "full": OnlineStudy(shift_updates=(500, 1000), updates=1500, seeds=20),
    "confirm": OnlineStudy(seeds=6, first_seed=UNSEEN_SEED),
}


def plan(study: OnlineStudy) -> Plan:
    """Baselines by learning rate."""
    rates = {"gentle": study.gentle_learning_rate, "fast": study.fast_learning_rate}
    cells = {_name(e, pace): (e, pace, rate) for pace, rate in rates.items() for e in study.estimators}
    claims = HYPOTHESES + (SUGGESTED if study.first_seed >= UNSEEN_SEED else ())
    return Plan(
        name="online",
        title="A taste that changes without notice",
        question="How fast does learning from single rollouts recover when what is rewarded changes?",
        arms={arm: partial(_run, study, e, rate) for arm, (e, _, rate) in cells.items()},
        factors={
            arm: {"estimator": e, "pace": pace, "learning_rate": rate}
            for arm, (e, pace, rate) in cells.items()
        },
        criteria={
            "metric": "reward",
            "target": 0.8,
            "chance": 1 / 48,
            "shift_updates": list(study.shift_updates),
            # A shift takes the reward away for long: that is no collapse.
            "collapse_window_updates": study.updates,
        },
        hypotheses=claims_about(claims, cells),
        pictures=[
            *(
                {"kind": "curves_by_arm", "where": {"pace": pace}, "title": f"Reward at the {pace} rate"}
                for pace in rates
            ),
            {"kind": "recovery"},
            {"kind": "curves_by_arm", "metric": "explained_variance", "where": {"estimator": "sao"}},
        ],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def _name(estimator: str, pace: str) -> str:
    return f"{estimator.replace('_', '-')}-{pace}"


def _run(study: OnlineStudy, estimator: EstimatorName, rate: float, seed: int) -> LearnConfig:
    return emergent(estimator, seed=seed, updates=study.updates, learning_rate=rate, world=study.world)


def _faster(number: int, pace: str, other: str) -> Hypothesis:
    return Hypothesis(
        id=f"O{number}",
        claim=f"At the {pace} rate SAO recovers in fewer updates than with {other} for a baseline",
        source=f"{PAPER}, online setting: SAO recovers faster than a running mean of 128",
        metric="recovery_updates",
        kind="paired_difference",
        better_arm=_name("sao", pace),
        worse_arm=_name("sao_running_mean_128" if "mean" in other else "reinforce_pp", pace),
        direction="lower",
    )


HYPOTHESES: Final = (
    _faster(1, "gentle", "a running mean"),
    _faster(2, "fast", "a running mean"),
    _faster(3, "gentle", "its own batch"),
    _faster(4, "fast", "its own batch"),
)


def _finds(number: int, estimator: str, other: str) -> Hypothesis:
    return Hypothesis(
        id=f"O{number}",
        claim=f"At the fast rate SAO earns more in the end than with {other} for a baseline",
        source="ours: suggested by an earlier run on seeds 0 to 2; to be judged on other seeds",
        metric="final_score",
        kind="paired_difference",
        better_arm=_name("sao", "fast"),
        worse_arm=_name(estimator, "fast"),
    )


SUGGESTED: Final = (
    _finds(5, "sao_running_mean_128", "a running mean"),
    _finds(6, "reinforce_pp", "its own batch"),
)
"""Claims of a run whose seeds did not suggest them."""
