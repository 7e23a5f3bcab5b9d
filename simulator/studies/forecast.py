"""How long will a study's missing runs take? Measured, on this machine, and no promise.

Runs are of one kind if they differ in seed and learning rates only, which cost no time. A kind with finished
runs in the folder takes what those took (`took_s` of their `meta.json`, with as many at once as there were
then). Of any other kind a few updates are run: what the first one took, and then the pace of those after
it, for all updates of a run.
"""

from __future__ import annotations

import heapq
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from simulator.studies.cells import Cell, RunConfig, run_config, schedule

_COSTLESS: Final = ("seed", "learning_rate", "critic_learning_rate", "critic_learning_rate_ratio")
_ALL_TRIALS_S: Final = 20.0
"""Shared by the kinds, within bounds: a dry run is to be short."""
_TRIAL_S: Final = (0.2, 1.0)
_TRIAL_DOUBT: Final = 2.0
"""*Choice*: a trial sees early updates, on a machine that does nothing else."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Missing runs that take equally long."""

    arms: Sequence[str]
    runs: int
    seconds: float
    """Of one run, as expected."""
    seconds_most: float
    """Of one run, if it goes badly."""
    basis: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a dry run says."""

    missing: Sequence[str]
    kinds: Sequence[Kind]
    jobs: int
    """Runs at once."""
    seconds: float
    seconds_most: float


def forecast(
    missing: Sequence[Cell], study: Path, *, jobs: int, advance: Callable[[], None] = lambda: None
) -> Forecast:
    """Expected time of the missing runs.

    Args:
        missing: in the order in which they would run.
        study: the folder; finished runs of any settings in it are learned from.
        jobs: runs at once, each on a processor of its own.
        advance: called after each kind (see `kinds`).
    """
    finished = _finished(study)
    by_kind = kinds(missing)
    lower, upper = _TRIAL_S
    trial_s = min(upper, max(lower, _ALL_TRIALS_S / max(1, len(by_kind))))
    found: dict[str, Kind] = {}
    unknown = [cells[0].config for key, cells in by_kind.items() if key not in finished]
    if unknown:
        trial(unknown[0], 0.0)  # the first run of a process takes seconds more, once
    for key, cells in by_kind.items():
        found[key] = _kind(cells, finished.get(key, []), trial_s)
        advance()
    each = [found[kind_of(cell.config.model_dump(mode="json"))] for cell in missing]
    return Forecast(
        missing=[cell.name for cell in missing],
        kinds=list(found.values()),
        jobs=jobs,
        seconds=makespan([kind.seconds for kind in each], jobs),
        seconds_most=makespan([kind.seconds_most for kind in each], jobs),
    )


def kinds(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by what decides how long they take."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(kind_of(cell.config.model_dump(mode="json")), []).append(cell)
    return found


def kind_of(config: Mapping[str, Any]) -> str:
    """A configuration without what costs no time."""
    return json.dumps(_without(config), sort_keys=True)


def makespan(seconds: Sequence[float], jobs: int) -> float:
    """Time until all are done if each goes, in order, to the first of `jobs` that is free."""
    free_at = [0.0] * jobs
    for each in seconds:
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)


def trial(config: RunConfig, trial_s: float) -> tuple[int, float]:
    """Run a few updates.

    Returns:
        How many, and the seconds that all updates of such a run would take.
    """
    begin_s = time.perf_counter()
    ends: list[float] = []

    def watch(_: int) -> None:
        ends.append(time.perf_counter())
        if len(ends) > 2 and ends[-1] - ends[0] > trial_s:
            raise _SeenEnough

    try:
        run_config(config, progress=watch)
    except _SeenEnough:
        pass
    else:
        return len(ends), time.perf_counter() - begin_s  # it was short enough to be run whole
    pace_s = (ends[-1] - ends[0]) / (len(ends) - 1)
    return len(ends), ends[0] - begin_s + pace_s * (schedule(config).updates - 1)


class _SeenEnough(Exception):  # noqa: N818 - no error
    """Ends a trial."""


def _kind(cells: Sequence[Cell], finished: Sequence[float], trial_s: float) -> Kind:
    if finished:
        expected, most = statistics.median(finished), max(finished)
        basis = f"{len(finished)} finished"
    else:
        updates, expected = trial(cells[0].config, trial_s)
        most, basis = _TRIAL_DOUBT * expected, f"a trial of {updates} updates"
    arms = list(dict.fromkeys(cell.arm for cell in cells))
    return Kind(arms=arms, runs=len(cells), seconds=expected, seconds_most=most, basis=basis)


def _finished(study: Path) -> dict[str, list[float]]:
    """Seconds that finished runs took, by kind."""
    found: dict[str, list[float]] = {}
    for meta in sorted((study / "cells").glob("[!.]*/meta.json")):
        took_s = json.loads(meta.read_text()).get("took_s")
        config = meta.with_name("config.json")
        if took_s is not None and config.is_file():
            found.setdefault(kind_of(json.loads(config.read_text())), []).append(float(took_s))
    return found


def _without(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {key: _without(value) for key, value in content.items() if key not in _COSTLESS}
    return [_without(value) for value in content] if isinstance(content, list) else content
