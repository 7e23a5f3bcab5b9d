"""The two kinds of runs that studies are made of: lag imposed, and lag that emerges from a pipeline."""

from __future__ import annotations

from typing import Any

from simulator.config import PipelineConfig
from simulator.experiments import groups, single
from simulator.lab.config import EstimatorName, LearnConfig
from simulator.lab.names import CRITICS, SINGLE


def imposed(
    estimator: EstimatorName, *, seed: int, lag_updates: int, updates: int, **changes: Any
) -> LearnConfig:
    """A run in which all data is exactly so old: 128 rollouts and one update a batch.

    Args:
        changes: of `LearnConfig`, learning rate and world among them.
    """
    pipeline = under(estimator, seed=seed, updates=updates, updates_per_batch=1)
    return LearnConfig(pipeline=pipeline, estimator=estimator, imposed_lag_updates=lag_updates, **changes)


def emergent(
    estimator: EstimatorName,
    *,
    seed: int,
    updates: int,
    pipeline: dict[str, Any] | None = None,
    **changes: Any,
) -> LearnConfig:
    """A run whose lag comes from lengths, machines and rules.

    Args:
        pipeline: fields of `PipelineConfig`, in place of those of `experiments.groups`.
        changes: of `LearnConfig`.
    """
    own = under(estimator, seed=seed, updates=updates, **(pipeline or {}))
    return LearnConfig(pipeline=own, estimator=estimator, **changes)


def under(estimator: EstimatorName, **changes: Any) -> PipelineConfig:
    """The pipeline that suits an estimator: groups of 8, or single rollouts and two updates of a critic."""
    if estimator in CRITICS:
        return single(**changes)
    return groups(**({"group_size": 1} if estimator in SINGLE else {}), **changes)
