"""One learning run, from its configuration to its event log."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pyarrow.compute as pc
import torch

from algorithms.estimator import Estimator
from simulator.lab.bridge import LearningWorkload
from simulator.lab.config import LearnConfig
from simulator.pipeline.pipeline import Run, run


def learn(
    config: LearnConfig,
    *,
    estimator: Estimator | None = None,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Simulate the pipeline of `config` with a small model that samples and learns in it.

    Args:
        config: pipeline, estimator by name, world.
        estimator: one of your own, in place of the one that `config` names.
        progress: called with the number of updates done, after each.

    Warns:
        UserWarning: no token had an advantage in any update, so nothing can have been learned.
    """
    # Matrices this small lose time on a second thread, and one thread gives one order of summation.
    torch.set_num_threads(1)
    finished = run(config.pipeline, LearningWorkload(config, estimator), progress=progress)
    updates = finished.log.updates
    if len(updates) and pc.all(pc.equal(updates["zero_fraction"], 1.0)).as_py():
        warnings.warn(
            f"no advantage in any of {len(updates)} updates: with group_size = "
            f"{config.pipeline.group_size} this estimator had nothing to learn from",
            stacklevel=2,
        )
    return finished
