"""Rows of the log from the table of rollouts: whole columns at once, when the run ends."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.eventlog import Recorder
from simulator.pipeline import episode_rows
from simulator.pipeline.journal import Fate, Journal
from simulator.pipeline.rollout import Clock, Rollouts
from simulator.pipeline.weights import Floats, Ints, cut_many_at_publishes

_CHUNK_ROLLOUTS: Final = 50_000
"""Written at once: bounds the memory for columns on the way."""

Bools: TypeAlias = NDArray[np.bool_]


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


class _Pieces(NamedTuple):
    row: Ints
    version: Ints
    start_token: Ints
    tokens: Ints
    start_s: Floats
    end_s: Floats


def write(journal: Journal) -> None:
    """All rollouts whose fate is known, and the segments of what they made."""
    table, start = journal.table, 0
    biggest = max(sum(fate.rollouts for fate in fates) for fates in _chunks(journal.fates))
    zeros, ones = np.zeros(biggest, dtype=np.int64), np.ones(biggest, dtype=np.int64)  # shared by all chunks
    for fates in _chunks(journal.fates):
        size = sum(fate.rollouts for fate in fates)
        ids = np.array(journal.ids[start : start + size], dtype=np.int64)
        _write_chunk(journal.recorder, table, ids, fates, zeros[:size], ones[:size])
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
    recorder: Recorder, table: Rollouts, ids: Ints, fates: Sequence[Fate], zeros: Ints, ones: Ints
) -> None:
    def each(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
        return np.repeat(np.array(values, dtype=dtype), [fate.rollouts for fate in fates])

    place = _column(table.place)[ids]
    validates = place < 0  # each request is a prompt and a group by itself
    prompt = np.where(validates, place, place // table.group_size)
    started_s, finished_s = _column(table.started_s)[ids], _column(table.finished_s)[ids]
    pieces = _pieces(table, ids)
    first = np.searchsorted(pieces.row, np.arange(len(ids)))
    last = np.searchsorted(pieces.row, np.arange(len(ids)), side="right") - 1
    made_nothing = last < first
    some = np.append(pieces.version, 0)  # so that rows without a piece have a place to look at
    oldest = pa.array(some[np.where(made_nothing, -1, first)], mask=made_nothing)
    complete = each([fate.complete for fate in fates], bool)
    ended_s = episode_rows.judged_s(table, ids, finished_s) if table.courses else finished_s
    ready_s = _instead(_group_ready_s(ended_s, complete, place, table.group_size), ids, table.ready_s)
    consumed_version = each([fate.consumed_version for fate in fates], np.int64)
    columns: dict[str, Any] = {
        "rollout_id": ids,
        "prompt_id": prompt,
        "group_id": prompt,
        "member": np.where(validates, 0, place % table.group_size),
        "engine": _column(table.engine)[ids],
        "submitted_s": started_s,  # a free slot is what asks
        "started_s": started_s,
        "finished_s": _nullable(finished_s),
        "group_ready_s": _nullable(ready_s),
        # a complete group enters the queue at once, unless that is full and holds it up
        "enqueued_s": _nullable(_instead(ready_s, ids, table.entered_s)),
        "consumed_s": _nullable(each([fate.consumed_s for fate in fates], np.float64)),
        "first_version": oldest,
        "last_version": pa.array(some[np.where(made_nothing, -1, last)], mask=made_nothing),
        "oldest_version": oldest,
        "consumed_version": pa.array(consumed_version, mask=consumed_version < 0),
        "action_tokens": _column(table.tokens)[ids],
        "observation_tokens": zeros,
        "turns": ones,
        "reward": _rewards(fates, each([fate.rewards is None for fate in fates], bool)),
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


def _pieces(table: Rollouts, ids: Ints) -> _Pieces:
    """Which version made which tokens of these rollouts, in their order and that of tokens."""
    stints = _stints(table, ids)
    clocks = table.clocks
    publishes = [len(clock.weights.versions) for clock in clocks]  # of each engine, one after another
    offset = np.cumsum([0, *publishes], dtype=np.int64)[stints.engine]
    versions = np.array([v for clock in clocks for v in clock.weights.versions], dtype=np.int64)
    positions = np.array([p for clock in clocks for p in clock.weights.positions], dtype=np.float64)
    unit = clocks[0].unit if clocks else 1.0
    cuts = cut_many_at_publishes(
        positions, stints.position, stints.tokens, unit, offset + stints.before, offset + stints.after
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
    return _Pieces(
        row=stints.row[of],
        version=versions[cuts.publish],
        start_token=stints.start_token[of] + cuts.start_token,
        tokens=cuts.tokens,
        start_s=start_s,
        end_s=end_s,
    )


def _stints(table: Rollouts, ids: Ints) -> _Stints:
    """Of these rollouts, in their order and that of tokens: the last of what finished, and all before it."""
    finished_s = _column(table.finished_s)[ids]
    row = np.flatnonzero(~np.isnan(finished_s))
    done = ids[row]
    start_s = _column(table.started_s)[done]
    made = np.zeros(len(done), dtype=np.int64)
    if table.stints:
        for i, rollout_id in enumerate(done.tolist()):
            if rollout_id in table.resumed_s:
                start_s[i], made[i] = table.resumed_s[rollout_id], table.made_before[rollout_id]
    last = _Stints(
        row=row,
        engine=_column(table.engine)[done],
        start_s=start_s,
        end_s=finished_s[row],
        position=_column(table.position)[done],
        start_token=made,
        tokens=_column(table.tokens)[done] - made,
        before=_column(table.before)[done],
        after=_column(table.after)[done],
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


def _rewards(fates: Sequence[Fate], missing: Bools) -> pa.Array:
    if missing.all():
        return pa.nulls(len(missing), pa.float64())
    rewards = np.zeros(len(missing))
    rewards[~missing] = [float(r) for fate in fates if fate.rewards is not None for r in fate.rewards]
    return pa.array(rewards, mask=missing)


def _words(words: Sequence[str | None], fates: Sequence[Fate]) -> pa.Array:
    """A column of few different words."""
    known = sorted({word for word in words if word is not None})
    codes = [-1 if word is None else known.index(word) for word in words]
    column = np.repeat(np.array(codes, dtype=np.int32), [fate.rollouts for fate in fates])
    indices = pa.array(column, mask=column < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(known, type=pa.string())).cast(pa.string())


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _column(values: array[Any]) -> NDArray[Any]:
    """A view, of columns that grow no more."""
    return np.frombuffer(values, dtype=values.typecode) if values else np.array([], dtype=values.typecode)
