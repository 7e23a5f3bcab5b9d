"""Which of the finished groups make the next batch?

A rule names places in the list of candidates, which is in order of arrival, or answers None: not yet. Its
choice must hold exactly a batch. Candidates that an age limit refuses are dropped before it is asked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A complete group in the queue."""

    submitted_index: int
    """Its place in the order in which groups were started, from 0."""
    oldest_version: int
    """Of its first token."""
    newest_version: int
    """Of its last token."""
    rollouts: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """What a rule may know of the rest of the pipeline when the trainer asks for a batch."""

    batch_rollouts: int
    version: int
    """The trainer's, in updates."""
    taken_batches: int
    """Before this one."""
    updates_per_batch: int
    oldest_running_version: int | None = None
    """The version that the oldest unfinished group started with; None if every group is complete."""
    unfinished_indices: Sequence[int] = ()
    """Submitted indices of the groups that are not complete, in order."""
    uniform: Callable[[], float] = float
    """A random number in [0, 1)."""


Selection: TypeAlias = Callable[[Sequence[Candidate], Take], Sequence[int] | None]


def fifo(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """First complete, first trained."""
    return _filled(range(len(candidates)), candidates, take)


def oldest_submitted_first(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """Of what is complete, whatever was started first: AReaL sorts by time of creation."""
    order = sorted(range(len(candidates)), key=lambda i: candidates[i].submitted_index)
    return _filled(order, candidates, take)


def oldest_weights_first(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """By the version that a group started with, then by arrival: NeMo-RL's weight_fifo."""
    order = sorted(range(len(candidates)), key=lambda i: (candidates[i].oldest_version, i))
    return _filled(order, candidates, take)


def freshest_first(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """By the version that a group started with, newest first: what waits is left to rot.

    Ages look good; what was overtaken is paid for in waste: https://github.com/NVIDIA-NeMo/RL/issues/2458.
    """
    order = sorted(range(len(candidates)), key=lambda i: (-candidates[i].oldest_version, i))
    return _filled(order, candidates, take)


def uniformly_random(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """Any complete group, each as likely: torchforge's replay buffer."""
    order = sorted(range(len(candidates)), key=lambda _: take.uniform())
    return _filled(order, candidates, take)


def in_order(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """Batch k is made of the k-th batch of submissions, and waits for the slowest of them.

    One long rollout stalls the trainer; nothing overtakes. It asks for equal groups.
    """
    first_rollout = take.taken_batches * take.batch_rollouts
    if _misses_one(first_rollout, candidates, take):
        return None
    due = [
        i
        for i, c in enumerate(candidates)
        if first_rollout <= c.submitted_index * c.rollouts < first_rollout + take.batch_rollouts
    ]
    return _filled(sorted(due, key=lambda i: candidates[i].submitted_index), candidates, take)


def windowed_fifo(window_groups: int) -> Selection:
    """First come, first served among the first `window_groups` of what is left, by submission: MiniMax.

    Left is whatever was started and not taken, complete or not. So the head of the line may be overtaken by
    its window and no further; what was taken out of the window makes room at its end.

    Args:
        window_groups: W, at least 1; 0.3 of the generation batch in the published setting.
    """
    if window_groups < 1:
        raise ValueError(f"window_groups must be at least 1, got {window_groups}")

    def select(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
        left = sorted([*take.unfinished_indices, *(c.submitted_index for c in candidates)])
        last = left[min(window_groups, len(left)) - 1] if left else -1
        inside = [i for i, c in enumerate(candidates) if c.submitted_index <= last]
        return _filled(inside, candidates, take)

    return select


def none_too_old_running(max_age_batches: int) -> Selection:
    """First in, first out, but the trainer waits while a group that has reached the age is unfinished.

    Args:
        max_age_batches: a group that started `max_age_batches` - 1 batches ago has reached it: verl counts
            `global_steps - start + 1`.

    References:
        verl, trainer V1, `wait`. https://github.com/volcengine/verl.
    """
    if max_age_batches < 1:
        raise ValueError(f"max_age_batches must be at least 1, got {max_age_batches}")

    def select(candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
        if take.oldest_running_version is not None:
            lag_batches = (take.version - take.oldest_running_version) // take.updates_per_batch
            if lag_batches + 1 >= max_age_batches:
                return None
        return fifo(candidates, take)

    return select


def _misses_one(first_rollout: int, candidates: Sequence[Candidate], take: Take) -> bool:
    """Is a group of the batch that begins with this rollout unfinished? Asked at every arrival."""
    if not candidates:
        return True
    first, end = (
        -(-rollout // candidates[0].rollouts)
        for rollout in (first_rollout, first_rollout + take.batch_rollouts)
    )
    place = bisect_left(take.unfinished_indices, first)
    return place < len(take.unfinished_indices) and take.unfinished_indices[place] < end


def _filled(order: Sequence[int], candidates: Sequence[Candidate], take: Take) -> Sequence[int] | None:
    """The first of `order` that fill a batch, or None if they do not."""
    chosen, rollouts = [], 0
    for i in order:
        if rollouts >= take.batch_rollouts:
            break
        chosen.append(i)
        rollouts += candidates[i].rollouts
    return chosen if rollouts >= take.batch_rollouts else None
