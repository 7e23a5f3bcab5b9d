"""Which version made which tokens of many rollouts? As columns: `Rollouts.segments`, for the log."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.pipeline.rollout import Clock, Rollouts
from simulator.pipeline.weights import Floats, Ints, cut_many_at_publishes


class _Stints(NamedTuple):
    """As `rollout.Stint`, as columns; `row` is the place of the rollout in the chunk."""

    row: Ints
    engine: Ints
    start_s: Floats
    end_s: Floats
    position: Floats
    start_token: Ints
    tokens: Ints
    before: Ints
    after: Ints


class Pieces(NamedTuple):
    row: Ints
    version: Ints
    start_token: Ints
    tokens: Ints
    start_s: Floats
    end_s: Floats


class Publishes(NamedTuple):
    """Of all engines, one after another."""

    offset: Ints
    """Where those of each engine begin."""
    version: Ints
    position: Floats


def publishes_of(clocks: Sequence[Clock]) -> Publishes:
    numbers = [len(clock.weights.versions) for clock in clocks]
    return Publishes(
        np.cumsum([0, *numbers], dtype=np.int64),
        np.array([v for clock in clocks for v in clock.weights.versions], dtype=np.int64),
        np.array([p for clock in clocks for p in clock.weights.positions], dtype=np.float64),
    )


def pieces_of(table: Rollouts, ids: Ints, publishes: Publishes) -> Pieces:
    """Which version made which tokens of these rollouts, in their order and that of tokens."""
    stints = _stints(table, ids)
    clocks = table.clocks
    offset = publishes.offset[stints.engine]
    unit = clocks[0].unit if clocks else 1.0
    cuts = cut_many_at_publishes(
        publishes.position,
        stints.position,
        stints.tokens,
        unit,
        offset + stints.before,
        offset + stints.after,
    )
    of = cuts.stint
    inner = np.flatnonzero(cuts.start_token > 0)  # begins where the version changed, not where the stint did
    start_s = stints.start_s[of]
    passed = stints.position[of[inner]] + cuts.start_token[inner] * unit
    start_s[inner] = _moments(
        clocks, stints.engine[of[inner]], cuts.publish[inner] - offset[of[inner]], passed
    )
    end_s = stints.end_s[of]
    end_s[inner - 1] = start_s[inner]
    return Pieces(
        row=stints.row[of],
        version=publishes.version[cuts.publish],
        start_token=stints.start_token[of] + cuts.start_token,
        tokens=cuts.tokens,
        start_s=start_s,
        end_s=end_s,
    )


def _stints(table: Rollouts, ids: Ints) -> _Stints:
    """Of these rollouts, in their order and that of tokens: the last of what finished, and all before it."""
    finished_s = column(table.finished_s)[ids]
    row = np.flatnonzero(~np.isnan(finished_s))
    done = ids[row]
    start_s = column(table.started_s)[done]
    made = np.zeros(len(done), dtype=np.int64)
    if table.stints:
        for i, rollout_id in enumerate(done.tolist()):
            if rollout_id in table.resumed_s:
                start_s[i], made[i] = table.resumed_s[rollout_id], table.made_before[rollout_id]
    last = _Stints(
        row=row,
        engine=column(table.engine)[done],
        start_s=start_s,
        end_s=finished_s[row],
        position=column(table.position)[done],
        start_token=made,
        tokens=column(table.tokens)[done] - made,
        before=column(table.before)[done],
        after=column(table.after)[done],
    )
    earlier = [
        (i, *stint[1:])
        for i, rollout_id in enumerate(ids.tolist() if table.stints else ())
        for stint in table.stints.get(rollout_id, ())
    ]
    if not earlier:
        return last
    columns = zip(last, zip(*earlier, strict=True), strict=True)
    every = [np.concatenate([column, np.array(more, dtype=column.dtype)]) for column, more in columns]
    order = np.lexsort((every[5], every[0]))
    return _Stints(*(column[order] for column in every))


def _moments(clocks: Sequence[Clock], engine: Ints, publish: Ints, position: Floats) -> Floats:
    """When each engine's clock passed these positions."""
    seconds = np.empty(len(position))
    for index, clock in enumerate(clocks):
        own = np.flatnonzero(engine == index)
        if len(own):
            seconds[own] = clock.moments(publish[own], position[own])
    return seconds


def column(values: array[Any]) -> NDArray[Any]:
    """A view, of columns that grow no more."""
    return np.frombuffer(values, dtype=values.typecode) if values else np.array([], dtype=values.typecode)
