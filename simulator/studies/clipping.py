"""How wide may the band be? Half-widths of the double-sided mask by lag: stability against speed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.lab.config import EstimatorName, LearnConfig
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan, claims_about
from simulator.studies.runs import imposed

CRITERIA: Final[Mapping[str, Any]] = {"metric": "accuracy", "target": 0.7, "chance": 0.1}


@final
class ClippingStudy(BaseModel):
    """Everything that decides the study's numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    estimator: EstimatorName = "grpo_dis"
    eps_low: tuple[float, ...] = (0.1, 0.3, 0.8)
    eps_high: tuple[float, ...] = (0.2, 1.0, 5.0)
    lags: tuple[int, ...] = (16, 64)
    """Imposed, in updates."""
    learning_rate: Annotated[float, Field(gt=0)] = 4e-3
    updates: Annotated[int, Field(ge=1)] = 800
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 4
    first_seed: Annotated[int, Field(ge=0)] = 0


SIZES: Final[Mapping[str, ClippingStudy]] = {
    "small": ClippingStudy(),
    "full": ClippingStudy(
        eps_low=(0.05, 0.1, 0.2, 0.3, 0.5, 0.8),
        eps_high=(0.1, 0.2, 0.28, 1.0, 3.0, 5.0),
        lags=(4, 16, 64, 128),
        seeds=10,
    ),
}


def plan(study: ClippingStudy) -> Plan:
    """Every band at every lag."""
    cells = [(low, high, lag) for lag in study.lags for low in study.eps_low for high in study.eps_high]
    names = {cell: _name(*cell) for cell in cells}
    return Plan(
        name="clipping",
        title="The width of the double-sided mask, by lag",
        question="How wide may a mask be, and what does one cost that is too strict?",
        arms={names[cell]: partial(_run, study, *cell) for cell in cells},
        factors={
            names[low, high, lag]: {"eps_low": low, "eps_high": high, "lag": lag} for low, high, lag in cells
        },
        criteria=CRITERIA,
        hypotheses=claims_about(HYPOTHESES, tuple(names.values())),
        pictures=[
            {"kind": "heat_map", "x": "eps_high", "y": "eps_low", "metric": metric, "where": {"lag": lag}}
            for lag in study.lags
            for metric in ("final_score", "masked_fraction")
        ],
        seeds=study.seeds,
        first_seed=study.first_seed,
    )


def _name(low: float, high: float, lag: int) -> str:
    return f"low{low:g}-high{high:g}-lag{lag}"


def _run(study: ClippingStudy, low: float, high: float, lag: int, seed: int) -> LearnConfig:
    return imposed(
        study.estimator,
        seed=seed,
        lag_updates=lag,
        updates=study.updates,
        learning_rate=study.learning_rate,
        eps_low=low,
        eps_high=high,
    )


HYPOTHESES: Final = (
    Hypothesis(
        id="C1",
        claim="At lag 16 a mask of (0.9, 1.2) ends less accurate than the paper's (0.7, 6)",
        source="Zheng et al. 2025 (M2PO): clipping throttles learning on stale data",
        metric="final_score",
        kind="paired_difference",
        better_arm=_name(0.3, 5.0, 16),
        worse_arm=_name(0.1, 0.2, 16),
    ),
    Hypothesis(
        id="C2",
        claim="At lag 64 the coding band (0.2, 4) or wider below ends less accurate than (0.7, 6)",
        source="ours: the lower bound is what holds old data back",
        metric="final_score",
        kind="paired_difference",
        better_arm=_name(0.3, 5.0, 64),
        worse_arm=_name(0.8, 5.0, 64),
    ),
    Hypothesis(
        id="C3",
        claim="At lag 64 an upper bound of 1.2 ends more accurate than the paper's 6",
        source="ours: ratios far above 1 belong to tokens that were taken up long ago",
        metric="final_score",
        kind="paired_difference",
        better_arm=_name(0.3, 0.2, 64),
        worse_arm=_name(0.3, 5.0, 64),
    ),
)
