"""One learning run, from its configuration to its event log."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import torch

from simulator.lab.bridge import LearningWorkload
from simulator.lab.checkpoint import CheckpointedWorkload, Checkpoints
from simulator.lab.config import LearnConfig
from simulator.lab.imposed import run_imposed
from simulator.lab.methods import Method
from simulator.lab.student import Learned, Student
from simulator.pipeline.pipeline import Run, run


def learn(
    config: LearnConfig,
    *,
    method: Method | None = None,
    progress: Callable[[int], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Run:
    """A small model samples and learns under the schedule of `config`: of its pipeline, or of an exact lag.

    Args:
        config: schedule, estimator by name, world.
        method: an estimator of your own, in place of the one that `config` names.
        progress: called with the number of updates done, after each.
        checkpoints: go on from what is kept there, and keep what is learned. They stay: remove them once the
            log is safe.

    Raises:
        ValueError: a checkpoint of another run.

    Warns:
        UserWarning: no token had an advantage in any update, so nothing can have been learned.
    """
    # Matrices this small lose time on a second thread, and one thread gives one order of summation.
    torch.set_num_threads(1)
    student = Student(config, method)
    if config.imposed_lag_updates is not None:
        finished = _imposed(student, progress, checkpoints)
    elif checkpoints is None:
        finished = run(config.pipeline, LearningWorkload(student), progress=progress)
    else:
        finished = run(config.pipeline, CheckpointedWorkload(student, checkpoints), progress=progress)
    updates = finished.log.updates
    if len(updates) and _nothing_pulled(updates):
        warnings.warn(
            f"no advantage in any of {len(updates)} updates: with group_size = "
            f"{config.pipeline.group_size} this estimator had nothing to learn from",
            stacklevel=2,
        )
    return finished


def _nothing_pulled(updates: pa.Table) -> bool:
    return all(pc.max(updates[f"{sign}_fraction"]).as_py() == 0.0 for sign in ("positive", "negative"))


def _imposed(
    student: Student, progress: Callable[[int], None] | None, checkpoints: Checkpoints | None
) -> Run:
    done = 0

    def after(learned: Learned) -> None:
        nonlocal done
        done += 1
        if checkpoints is not None and done > len(checkpoints.done):
            checkpoints.done.append(learned)
        if progress is not None:
            progress(done)

    if checkpoints is None:
        return run_imposed(student, after=after)
    return run_imposed(
        student,
        first_update=checkpoints.restore(student),
        recalled=checkpoints.done.__getitem__,
        before=lambda traffic: checkpoints.before(student, traffic),
        after=after,
    )
