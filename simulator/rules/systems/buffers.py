"""Systems that differ in whom the trainer takes, or in what becomes of what runs."""

from __future__ import annotations

from simulator.rules.admission import always, back_pressure
from simulator.rules.on_sync import abort_and_restart, pull_when_idle
from simulator.rules.selection import oldest_submitted_first, uniformly_random, windowed_fifo
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape, older_than_batches


def slime(shape: Shape) -> Staleness:  # noqa: ARG001 - every system takes one
    """A fixed pool of groups in flight; at a sync they are aborted and start again from the prompt.

    So a rollout longer than the sync interval never ends. Of what is complete the first is taken, then
    sorted by index.

    References:
        slime, fully async example. https://github.com/THUDM/slime.
    """
    return Staleness(admission=always, selection=oldest_submitted_first, on_sync=abort_and_restart())


def torchforge(shape: Shape, *, max_policy_age: int = 1) -> Staleness:
    """Uniformly at random from a buffer, out of which everything more than `max_policy_age` steps old went.

    References:
        torchforge, replay buffer. https://github.com/meta-pytorch/torchforge.
    """
    return Staleness(
        admission=always,
        selection=uniformly_random,
        age_limit=older_than_batches(max_policy_age, shape),
    )


def minimax_wfifo(
    shape: Shape, *, window_share: float = 0.3, generation_rollouts: int | None = None
) -> Staleness:
    """Windowed first in, first out: complete groups within W = 0.3 N of the head of the line.

    No more than N rollouts are started and not taken (*choice*: without a bound everything beyond the
    window would pile up behind a long rollout).

    Args:
        window_share: of N.
        generation_rollouts: N; *choice*, None for the slots of all engines.

    Raises:
        ValueError: a window that holds less than a batch, which would never fill.
    """
    n = generation_rollouts or shape.slots
    groups = int(window_share * n / shape.group_size)
    if groups * shape.group_size < shape.batch_rollouts:
        raise ValueError(
            f"window_share ({window_share}) of {n} rollouts holds {groups} groups, less than a batch of"
            f" {shape.batch_rollouts} rollouts: it never fills"
        )
    return Staleness(admission=back_pressure(always, n), selection=windowed_fifo(groups))


def laminar(shape: Shape) -> Staleness:  # noqa: ARG001
    """Each engine pulls the newest weights when its own rollouts have ended: one version a rollout.

    Repacking of long rollouts onto fewer engines is not modelled.

    References:
        Sheng et al., Laminar, 2025. https://arxiv.org/abs/2510.12633.
    """
    return Staleness(admission=always, on_sync=pull_when_idle())
