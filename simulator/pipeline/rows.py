"""Rows of the log from the table of rollouts: whole columns at once, when the run ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.eventlog import Recorder
from simulator.pipeline import episode_rows
from simulator.pipeline.journal import Fate, Journal
from simulator.pipeline.pieces import Publishes, column, pieces_of, publishes_of
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import Floats, Ints

_CHUNK_ROLLOUTS: Final = 16_384
"""Written at once: bounds the memory for columns on the way."""

Bools: TypeAlias = NDArray[np.bool_]


class _Same(NamedTuple):
    """Columns of one value, which all chunks share: they cost memory once."""

    zeros: Ints
    ones: Ints
    nulls: pa.Array


def write(journal: Journal) -> None:
    """All rollouts whose fate is known, and the segments of what they made."""
    table, start = journal.table, 0
    biggest = max(sum(fate.rollouts for fate in fates) for fates in _chunks(journal.fates))
    same = _Same(
        np.zeros(biggest, dtype=np.int64), np.ones(biggest, dtype=np.int64), pa.nulls(biggest, pa.float64())
    )
    publishes = publishes_of(table.clocks)
    every_id = column(journal.ids)
    for fates in _chunks(journal.fates):
        size = sum(fate.rollouts for fate in fates)
        _write_chunk(journal.recorder, table, every_id[start : start + size], fates, same, publishes)
        start += size


def _chunks(fates: Sequence[Fate]) -> Iterator[Sequence[Fate]]:
    start = size = 0
    for i, fate in enumerate(fates):
        size += fate.rollouts
        if size >= _CHUNK_ROLLOUTS or i + 1 == len(fates):
            yield fates[start : i + 1]
            start, size = i + 1, 0
    if not fates:
        yield ()


def _write_chunk(
    recorder: Recorder,
    table: Rollouts,
    ids: Ints,
    fates: Sequence[Fate],
    same: _Same,
    publishes: Publishes,
) -> None:
    def each(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
        return np.repeat(np.array(values, dtype=dtype), [fate.rollouts for fate in fates])

    place = column(table.place)[ids]
    validates = place < 0  # each request is a prompt and a group by itself
    prompt = np.where(validates, place, place // table.group_size)
    started_s, finished_s = column(table.started_s)[ids], column(table.finished_s)[ids]
    pieces = pieces_of(table, ids, publishes)
    parts = np.bincount(pieces.row, minlength=len(ids))
    last = np.cumsum(parts) - 1
    first = last - parts + 1
    made_nothing = parts == 0
    some = np.append(pieces.version, 0)  # so that rows without a piece have a place to look at
    oldest = pa.array(some[np.where(made_nothing, -1, first)], mask=made_nothing)
    complete = each([fate.complete for fate in fates], bool)
    ended_s = episode_rows.judged_s(table, ids, finished_s) if table.courses else finished_s
    ready_s = _instead(_group_ready_s(ended_s, complete, place, table.group_size), ids, table.ready_s)
    ready = _nullable(ready_s)
    consumed_version = each([fate.consumed_version for fate in fates], np.int64)
    columns: dict[str, Any] = {
        "rollout_id": ids,
        "prompt_id": prompt,
        "group_id": prompt,
        "member": np.where(validates, 0, place % table.group_size),
        "engine": column(table.engine)[ids],
        "submitted_s": started_s,  # a free slot is what asks
        "started_s": started_s,
        "finished_s": _nullable(finished_s),
        "group_ready_s": ready,
        # a complete group enters the queue at once, unless that is full and holds it up
        "enqueued_s": _nullable(_instead(ready_s, ids, table.entered_s)) if table.entered_s else ready,
        "consumed_s": _nullable(each([fate.consumed_s for fate in fates], np.float64)),
        "first_version": oldest,
        "last_version": pa.array(some[np.where(made_nothing, -1, last)], mask=made_nothing),
        "oldest_version": oldest,
        "consumed_version": pa.array(consumed_version, mask=consumed_version < 0),
        "action_tokens": column(table.tokens)[ids],
        "observation_tokens": same.zeros[: len(ids)],
        "turns": same.ones[: len(ids)],
        "reward": _rewards(fates, each([fate.rewards is None for fate in fates], bool), same.nulls),
        "status": _words([fate.status for fate in fates], fates),
        "reason": _words([fate.reason for fate in fates], fates),
    }
    if table.courses:
        own_s = pieces.end_s - pieces.start_s
        decoded_s = np.bincount(pieces.row, weights=own_s, minlength=len(ids)).astype(np.float64)
        columns |= episode_rows.columns(
            table, ids, started_s=started_s, finished_s=finished_s, decoded_s=decoded_s
        )
    recorder.extend("rollouts", columns)
    segments = {name: column for name, column in pieces._asdict().items() if name != "row"}
    recorder.extend("segments", {"rollout_id": ids[pieces.row], **segments})


def _group_ready_s(finished_s: Floats, complete: Bools, place: Ints, group_size: int) -> Floats:
    """When the slowest member was done, of complete groups, whose rows are next to each other."""
    ready_s = np.full(len(finished_s), np.nan)
    place, ends_s = place[complete], finished_s[complete]
    if len(place) == 0:
        return ready_s
    another = (np.diff(place // group_size) != 0) | (np.diff(place) <= 0)
    begins = np.flatnonzero(np.append(True, another))
    slowest = np.maximum.reduceat(ends_s, begins)
    ready_s[complete] = np.repeat(slowest, np.diff(np.append(begins, len(place))))
    return ready_s


def _instead(times_s: Floats, ids: Ints, other_s: Mapping[int, float]) -> Floats:
    """These times, but of some rollouts another."""
    if not other_s:
        return times_s
    known = ~np.isnan(times_s)
    pairs = zip(ids.tolist(), times_s.tolist(), strict=True)
    return np.where(known, [other_s.get(i, time_s) for i, time_s in pairs], np.nan)


def _rewards(fates: Sequence[Fate], missing: Bools, nulls: pa.Array) -> pa.Array:
    if missing.all():
        return nulls[: len(missing)]
    rewards = np.zeros(len(missing))
    rewards[~missing] = [float(r) for fate in fates if fate.rewards is not None for r in fate.rewards]
    return pa.array(rewards, mask=missing | np.isnan(rewards))


def _words(words: Sequence[str | None], fates: Sequence[Fate]) -> pa.Array:
    """A column of few different words."""
    known = sorted({word for word in words if word is not None})
    codes = [-1 if word is None else known.index(word) for word in words]
    column = np.repeat(np.array(codes, dtype=np.int32), [fate.rollouts for fate in fates])
    indices = pa.array(column, mask=column < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(known, type=pa.string())).cast(pa.string())


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
