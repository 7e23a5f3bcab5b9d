"""What pipeline was it that left this log, as the simulator knows it? Its times are to be fitted."""

from __future__ import annotations

from analysis.runs import Run
from full_runs.configs.record import FullConfig
from simulator.config import PipelineConfig
from simulator.lab.config import LearnConfig


def pipeline_of(run: Run) -> PipelineConfig:
    """Slots, engines, groups, batches, the staleness rule, measuring: what is set and not fitted.

    Raises:
        ValueError: the folder's config.json is of no kind of run that this project makes.
    """
    given = dict(run.config)
    if "in_flight" in given:
        return of_full_run(FullConfig.model_validate(given))
    if "pipeline" in given:
        return LearnConfig.model_validate(given).pipeline
    if "slots" in given:
        return PipelineConfig.model_validate(given)
    raise ValueError(f"run {run.arm!r}: config.json names no slots, so there is no pipeline to calibrate")


def of_full_run(config: FullConfig) -> PipelineConfig:
    """Real engines stand still for a push, and the trainer waits while held-out prompts are played.

    Keys that are computed again cost what is in the fitted speeds, so here they are kept.
    """
    every = -(-config.measure_every // config.updates_per_push) * config.updates_per_push
    changes = {
        "keys_at_push": "keep",
        "engines_stand_still": True,
        "validate_every_updates": every,
        "validation_rollouts": config.held_out,
    }
    return PipelineConfig.model_validate(config.pipeline().model_dump() | changes)
