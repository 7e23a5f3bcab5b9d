"""Is it learning rate times lag that decides? Boundary and collapse time of uncorrected GRPO.

One update a batch and pi_old equal to the present policy: GRPO as published has no correction at all then.
Song et al. find the largest stable learning rate to fall as 1 / lag, and collapse after a constant learning
rate times updates; a numpy twin of this world found (t - lag) x learning rate between 1.4 and 1.6.
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

SONG: Final = "Song, Xu et al. 2026, arXiv 2607.01083"
CRITERIA: Final[Mapping[str, Any]] = {"metric": "accuracy", "target": 0.7, "chance": 0.1}


@final
class LawStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimator: EstimatorName = "grpo"
    learning_rates: tuple[float, ...] = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)
    lags: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Imposed, in updates."""
    updates: Annotated[int, Field(ge=1)] = 1000
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, LawStudy]] = {"small": LawStudy(), "full": LawStudy(updates=1500, seeds=20)}


def plan(study: LawStudy) -> Plan:
    """Every learning rate at every lag."""
    cells = [(rate, lag) for rate in study.learning_rates for lag in study.lags]
    return Plan(
        name="law",
        title="Learning rate by lag: where does uncorrected GRPO break, and when?",
        question="Is it learning rate times lag that decides whether and when learning collapses?",
        arms={_name(rate, lag): partial(_run, study, rate, lag) for rate, lag in cells},
        factors={
            _name(rate, lag): {"learning_rate": rate, "lag": lag, "estimator": study.estimator}
            for rate, lag in cells
        },
        criteria=CRITERIA,
        hypotheses=HYPOTHESES,
        pictures=[
            {"kind": "phase_diagram"},
            {"kind": "collapse_times"},
            {"kind": "heat_map", "x": "lag", "y": "learning_rate", "metric": "final_score"},
            {"kind": "cosine"},
            {"kind": "drift_by_lag"},
        ],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def _name(rate: float, lag: int) -> str:
    return f"rate{rate:g}-lag{lag}"


def _run(study: LawStudy, rate: float, lag: int, seed: int) -> LearnConfig:
    return imposed(study.estimator, seed=seed, lag_updates=lag, updates=study.updates, learning_rate=rate)


HYPOTHESES: Final = (
    Hypothesis(
        id="L1",
        claim="The largest stable learning rate falls as lag^-x with x between 0.75 and 1.25",
        source=f"{SONG}: x = 1",
        metric="boundary_exponent",
        kind="fitted",
        between=(0.75, 1.25),
    ),
    Hypothesis(
        id="L2",
        claim="Collapse comes after (updates - lag) ~ learning rate^-b with b between 0.75 and 1.25",
        source=f"{SONG}: b = 1",
        metric="collapse_time_learning_rate",
        kind="fitted",
        between=(0.75, 1.25),
    ),
    Hypothesis(
        id="L3",
        claim="The time from the lag to the collapse does not depend on the lag: lag^-c, c within 0.25 of 0",
        source=f"{SONG}: c = 0",
        metric="collapse_time_lag",
        kind="fitted",
        between=(-0.25, 0.25),
    ),
    Hypothesis(
        id="L4",
        claim="The cosine of consecutive gradients gives the alarm at least 10 updates before a collapse",
        source=f"{SONG}: a positive, persistent cosine precedes collapse; Xu et al. 2026, arXiv 2603.01501",
        metric="alarm_lead_updates",
        kind="fitted",
        between=(10.0, 1000.0),
    ),
    Hypothesis(
        id="L5",
        claim="Fewer than one in five runs that never collapse raise a false alarm",
        source="ours",
        metric="alarm_false_share",
        kind="fitted",
        between=(-0.01, 0.2),
    ),
    Hypothesis(
        id="L6",
        claim="Fewer than one in five collapses come without an alarm",
        source="ours",
        metric="alarm_missed_share",
        kind="fitted",
        between=(-0.01, 0.2),
    ),
)
