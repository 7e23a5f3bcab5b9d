"""verl's trainers apart from the synchronous one.

References:
    https://verl.readthedocs.io/en/latest/advance/fully_async.html and one_step_off.html beside it.
"""

from __future__ import annotations

from simulator.rules.admission import Admission, always, back_pressure, next_batch_while_training
from simulator.rules.counts import Counts
from simulator.rules.eviction import drop_oldest_beyond
from simulator.rules.on_sync import abort_and_resume, after_the_batch, drain, keep
from simulator.rules.selection import none_too_old_running
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape, older_than_batches, whole_groups


def verl_one_step_off(shape: Shape) -> Staleness:  # noqa: ARG001 - every system takes one
    """The next batch is generated while this one trains, weights change in between: lag exactly one batch."""
    return Staleness(admission=next_batch_while_training, may_publish=after_the_batch)


def verl_fully_async(
    shape: Shape, *, staleness_threshold: float = 0.5, partial_rollout: bool = True
) -> Staleness:
    """Between two syncs no more than (1 + s) times what they train is started, the left-over included.

    A sync comes after trigger local updates of require x mini prompts: `Shape.batches_per_push` batches. At a
    sync the counter of started samples becomes what is running or queued. As many fit into the queue; the
    oldest makes room. It bounds a sum, not a rollout.

    Args:
        staleness_threshold: s, at least 0. 0 still overlaps the batches between two syncs.
        partial_rollout: interrupt at a sync and resume under new weights; else what runs ends first.

    Raises:
        ValueError: s is negative.
    """
    if not staleness_threshold >= 0:
        raise ValueError(f"staleness_threshold must be at least 0, got {staleness_threshold}")
    most = whole_groups(shape.rollouts_per_push * (1 + staleness_threshold), shape)

    def admission(counts: Counts) -> int:
        return most - counts.outstanding_at_publish_rollouts - counts.submitted_since_publish_rollouts

    return Staleness(
        admission=admission,
        overflow=drop_oldest_beyond(most),
        on_sync=abort_and_resume() if partial_rollout else drain(),
    )


def verl_v1_drop(
    shape: Shape, *, max_age_steps: int = 8, outstanding_batches: int | None = None
) -> Staleness:
    """Evicted, group and all, iff global_step - its first step + 1 > max; another prompt takes its place.

    The one makes data of this very step count as one step old, so max - 1 batches of lag are the last that
    is trained.

    Args:
        max_age_steps: 8 there.
        outstanding_batches: *choice*: batches under way at once, refilled one for one; None for as many as
            may live, `max_age_steps`.

    Raises:
        ValueError: an age below 1.
    """
    return Staleness(
        admission=_refilled(shape, max_age_steps, outstanding_batches),
        age_limit=older_than_batches(max_age_steps - 1, shape),
        on_sync=keep(pauses_engines=True),
    )


def verl_v1_wait(
    shape: Shape, *, max_age_steps: int = 8, outstanding_batches: int | None = None
) -> Staleness:
    """Nothing is evicted: the trainer waits until no unfinished group has reached the age.

    It bounds the age of what is unfinished. What is finished grows older in the queue: with as many batches
    under way as the age, and engines that are never late, all data is `max_age_steps` batches old.

    Args:
        max_age_steps, outstanding_batches: as in `verl_v1_drop`.

    Raises:
        ValueError: an age below 1.
    """
    return Staleness(
        admission=_refilled(shape, max_age_steps, outstanding_batches),
        selection=none_too_old_running(max_age_steps),
        on_sync=keep(pauses_engines=True),
    )


def _refilled(shape: Shape, max_age_steps: int, batches: int | None) -> Admission:
    if max_age_steps < 1:
        raise ValueError(f"max_age_steps must be at least 1, got {max_age_steps}")
    if batches is not None and batches < 1:
        raise ValueError(f"outstanding_batches must be at least 1, got {batches}")
    return back_pressure(always, (batches or max_age_steps) * shape.batch_rollouts)
