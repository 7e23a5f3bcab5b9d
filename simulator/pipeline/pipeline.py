"""One run of the pipeline, from a configuration to its log."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Final

import simpy

from simulator.config import PipelineConfig, length_law
from simulator.pipeline.result import Run
from simulator.pipeline.wiring import Pipeline
from simulator.pipeline.workload import DrawnWorkload, Workload
from simulator.rules.staleness import Staleness
from simulator.world.drawn import DrawnLengths
from simulator.world.failures import Faults

__all__ = ["Pipeline", "Run", "drawn_lengths", "run"]


def drawn_lengths(config: PipelineConfig) -> DrawnLengths:
    """The lengths that `config` asks for."""
    return DrawnLengths(
        length_law(config.lengths), config.seed, config.group_size, correlation=config.length_correlation
    )


def run(
    config: PipelineConfig,
    workload: Workload | None = None,
    *,
    rule: Staleness | None = None,
    progress: Callable[[int], None] | None = None,
    until_s: float | None = None,
    faults: Faults | None = None,
) -> Run:
    """Simulate until `config.updates` are trained and the last of them is published.

    Args:
        workload: what a rollout is and what an update does; None draws lengths from the configured law.
        rule: in place of the decisions that `config` names.
        progress: called with the number of updates done, after each.
        until_s: stop earlier, just before anything happens at this time, or at one that sums of times may
            have rounded away from it.
        faults: in place of those that `config` draws.

    Errors:
        ValueError: `until_s` is no time after 0.
        LedgerError: a rollout or a token was lost.
        StalledError: nothing can happen any more and updates are missing, or none was done for too long.
        Whatever the workload raises.
    """
    if until_s is not None and not 0 < until_s < math.inf:
        raise ValueError(f"until_s must be finite and greater than 0, got {until_s}")
    workload = workload or DrawnWorkload(drawn_lengths(config))
    done = Pipeline(simpy.Environment(), config, workload, progress, rule=rule, faults=faults).run(until_s)
    if done.log.rollouts.num_rows >= _BIG_ROLLOUTS:
        gc.collect()  # the parts refer to each other: nothing else lets go of their columns, beside the log's
    return done


_BIG_ROLLOUTS: Final = 2**18
