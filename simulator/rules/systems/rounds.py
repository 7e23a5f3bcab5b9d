"""Systems that work in rounds: a batch is generated, then trained, and little overlaps."""

from __future__ import annotations

import math

from simulator.rules.admission import always, back_pressure, next_batch_while_training, synchronous
from simulator.rules.on_sync import abort_and_resume, drain
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape, whole_groups


def sync(shape: Shape, *, colocated: bool = False) -> Staleness:  # noqa: ARG001 - every system takes one
    """Generate, train, push; nothing overlaps. Lag 0, but for the updates within a batch.

    Args:
        colocated: engines and trainer take turns on the same accelerators.
    """
    return Staleness(admission=synchronous, colocated=colocated)


def openrlhf(shape: Shape, *, partial_rollout: bool = False) -> Staleness:  # noqa: ARG001
    """A pool of tokens for one batch, handed back when the trainer takes it: at least one batch of lag.

    Args:
        partial_rollout: running rollouts are interrupted at a push and go on after it. Without, generation
            and push exclude each other, so a push waits until nothing runs.

    References:
        OpenRLHF, `--async_train`, `--async_queue_size 1`. https://github.com/OpenRLHF/OpenRLHF.
    """
    return Staleness(
        admission=next_batch_while_training,
        on_sync=abort_and_resume() if partial_rollout else drain(),
    )


def kimi_partial(shape: Shape, *, finished_share: float = 0.5) -> Staleness:
    """A round ends when a share of its rollouts is done; the rest is paused, and goes on first in the next.

    APRIL and C3PO++ are alike. Trained is what is done: a batch is that share of the round, so the round
    holds batch / share rollouts. Generation stands still while the trainer works.

    Args:
        finished_share: *choice*, 0.5: of a round, in (0, 1]; 1 is `sync`, colocated.

    Raises:
        ValueError: `finished_share` outside (0, 1].

    References:
        Kimi Team, Kimi k1.5, 2025, partial rollouts. https://arxiv.org/abs/2501.12599.
        Zhou et al., APRIL, 2025. https://arxiv.org/abs/2509.18521.
    """
    if not 0 < finished_share <= 1:
        raise ValueError(f"finished_share must lie in (0, 1], got {finished_share}")
    held = whole_groups(math.ceil(shape.batch_rollouts / finished_share), shape)
    return Staleness(
        admission=back_pressure(always, max(held, shape.batch_rollouts)),
        on_sync=abort_and_resume(),
        colocated=True,
    )
