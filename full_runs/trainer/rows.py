"""Which rank computes which rollouts, and in how many pieces?

Sharded weights are gathered by all ranks together, so every rank makes the same number of passes, if need be
over a rollout that counts for nothing. The plan is a pure function of the lengths: every rank makes it alone
and comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Pieces = tuple[tuple[int, ...], ...]
"""Micro-batches: numbers of the rollouts of each."""


def dealt(lengths: Sequence[int], ranks: int) -> tuple[tuple[int, ...], ...]:
    """Rollouts of each rank: the longest first, each to the rank that has the fewest tokens so far."""
    shares: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        least = min(range(ranks), key=lambda rank: (loads[rank], len(shares[rank]), rank))
        shares[least].append(row)
        loads[least] += lengths[row]
    return tuple(map(tuple, shares))


def pieces(
    rows: Sequence[int],
    lengths: Sequence[int],
    cost: Callable[[Sequence[int]], int],
    tokens_at_once: int | None,
) -> Pieces:
    """One rank's rollouts in micro-batches of at most so many tokens; a longer rollout is one alone.

    Args:
        cost: (lengths of a micro-batch) -> tokens that the model reads for it.
        tokens_at_once: None puts all in one.
    """
    if tokens_at_once is None:
        return (tuple(rows),) if rows else ()
    done: list[tuple[int, ...]] = []
    open_: list[int] = []
    for row in rows:
        grown = [lengths[each] for each in (*open_, row)]
        if open_ and cost(grown) > tokens_at_once:
            done.append(tuple(open_))
            open_ = []
        open_.append(row)
    return (*done, tuple(open_)) if open_ else tuple(done)


def plan(
    lengths: Sequence[int],
    ranks: int,
    *,
    cost: Callable[[Sequence[int]], int],
    tokens_at_once: int | None,
) -> tuple[Pieces, ...]:
    """Micro-batches of every rank, equally many of each; those that are missing are empty."""
    shares = [pieces(rows, lengths, cost, tokens_at_once) for rows in dealt(lengths, ranks)]
    most = max(map(len, shares))
    return tuple(share + ((),) * (most - len(share)) for share in shares)
