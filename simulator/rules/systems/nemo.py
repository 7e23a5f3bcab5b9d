"""NeMo-RL's asynchronous modes.

References:
    https://github.com/NVIDIA-NeMo/RL, async GRPO.
"""

from __future__ import annotations

from simulator.rules.admission import Admission, always
from simulator.rules.counts import Counts
from simulator.rules.on_sync import keep
from simulator.rules.selection import Selection, fifo, freshest_first, in_order
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape, older_than_batches


def nemo_windowed(
    shape: Shape, *, max_trajectory_age_steps: int = 1, selection: Selection = freshest_first
) -> Staleness:
    """No gate; whatever began more than S steps before the step that trains is evicted, running or not.

    Args:
        max_trajectory_age_steps: S: evicted iff start < step - S.
        selection: *choice*, the freshest first; `fifo` for any in the window.
    """
    too_old = older_than_batches(max_trajectory_age_steps, shape)
    return Staleness(
        admission=always,
        selection=selection,
        age_limit=too_old,
        abort=too_old,
        on_sync=keep(pauses_engines=True),
    )


def nemo_ready_first(shape: Shape, *, window_steps: int = 2) -> Staleness:  # noqa: ARG001 - all take one
    """Batch i is dispatched iff i < trainer's version + window; the first that are ready are trained.

    Nothing is dropped: the gate bounds the run-ahead, and a long rollout may be overtaken without end.

    Args:
        window_steps: at least 1, where a batch is dispatched when the one before is trained.
    """
    return Staleness(
        admission=_dispatched_before(window_steps), selection=fifo, on_sync=keep(pauses_engines=True)
    )


def nemo_in_order(shape: Shape, *, window_steps: int = 2) -> Staleness:  # noqa: ARG001
    """The same gate; step k trains what was dispatched for step k, and stalls until all of it is there.

    Lag is at most window - 1 steps, for every rollout.
    """
    return Staleness(
        admission=_dispatched_before(window_steps), selection=in_order, on_sync=keep(pauses_engines=True)
    )


def _dispatched_before(window_steps: int) -> Admission:
    if window_steps < 1:
        raise ValueError(f"window_steps must be at least 1, got {window_steps}")

    def admission(counts: Counts) -> int:
        return (
            counts.trainer_version_batches + window_steps
        ) * counts.batch_rollouts - counts.submitted_rollouts

    return admission
