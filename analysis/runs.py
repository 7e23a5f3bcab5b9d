"""What was recorded? A run folder read back as one frozen record of tables.

A run folder holds the four Parquet tables of `simulator.eventlog` beside `config.json` and `meta.json`;
a study folder holds many run folders under `cells/`. Times are seconds, simulated or wall as `clock` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, final

import pandas as pd
import pyarrow.parquet as pq

from analysis.apart import arms_apart, differences
from simulator.eventlog import SCHEMAS, EventLog

CLOCKS: Final = ("simulated", "wall", "imposed")
RUN_FILES: Final = tuple(f"{name}.parquet" for name in SCHEMAS)
_PARTS: Final = ("run", "unfinished")
"""Of a full run's folder."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One recorded run.

    Integer columns with missing values arrive as floats with NaN (a rollout that was never consumed has
    no `consumed_version`).
    """

    arm: str
    seed: int
    clock: str
    """Which seconds the tables count: simulated ones, those of a wall clock, or (lag imposed) updates."""
    rollouts: pd.DataFrame
    segments: pd.DataFrame
    updates: pd.DataFrame
    intervals: pd.DataFrame
    config: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, schema in SCHEMAS.items():
            missing = [column for column in schema.names if column not in getattr(self, name).columns]
            if missing:
                raise ValueError(f"run {self.arm!r} seed {self.seed}: {name} lacks the columns {missing}")
        if self.clock not in CLOCKS:
            raise ValueError(f"run {self.arm!r} seed {self.seed}: clock {self.clock!r}, not one of {CLOCKS}")


def load_run(folder: Path) -> Run:
    """Read one run folder; `arm` falls back to the folder's name, which is what a single run is called."""
    missing = [name for name in RUN_FILES if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} is not a run folder: it lacks {', '.join(missing)}")
    meta = read_json(folder / "meta.json")
    tables = {name: pq.read_table(folder / f"{name}.parquet").to_pandas() for name in SCHEMAS}
    return Run(
        arm=_arm(folder, meta),
        seed=int(meta.get("seed") or 0),
        clock=str(meta.get("clock", "simulated")),
        config=read_json(folder / "config.json"),
        meta=meta,
        **tables,
    )


def _arm(folder: Path, meta: Mapping[str, Any]) -> str:
    return str(meta.get("arm") or folder.resolve().name)


def from_log(log: EventLog, *, arm: str, seed: int, clock: str) -> Run:
    """A run that was just recorded and is still in memory."""
    tables = {name: table.to_pandas() for name, table in log.tables().items()}
    return Run(arm=arm, seed=seed, clock=clock, **tables)


def called(folder: Path) -> str:
    """A run's name for a reader: a full run's log lies in a folder of the one that was named."""
    whole = folder.resolve()
    return whole.parent.name if whole.name in _PARTS else whole.name


def is_run(folder: Path) -> bool:
    """Does this folder hold one run's tables?"""
    return all((folder / name).is_file() for name in RUN_FILES)


def run_folders(folder: Path) -> list[Path]:
    """The run folders of a folder, by name; an unfinished run is left out.

    A folder with tables is one run. A study says in `study.json` which runs are its own: runs of earlier
    settings may lie beside them. Without that, all runs in or under `cells/` of the folder count.

    Raises:
        FileNotFoundError: if there are none.
    """
    if is_run(folder):
        return [folder]
    registered = read_json(folder / "study.json").get("runs")
    if registered is not None:
        found = [folder / name for name in sorted(registered) if is_run(folder / name)]
    else:
        found = [p for p in sorted({*folder.glob("*"), *folder.glob("cells/*")}) if p.is_dir() and is_run(p)]
    if not found:
        raise FileNotFoundError(f"{folder} holds no recorded run ({', '.join(RUN_FILES)})")
    return found


def missing_runs(folder: Path) -> list[str]:
    """Names of the runs that a study registered and that are not there, in the order in which they run."""
    registered = read_json(folder / "study.json").get("runs", ())
    return [Path(name).name for name in registered if not is_run(folder / name)]


def load_runs(*folders: Path) -> Iterator[Run]:
    """Every run of these run or study folders, one at a time: a study's tables need not fit in memory."""
    for folder in folders:
        for run_folder in run_folders(folder):
            yield load_run(run_folder)


def named_apart(*folders: Path) -> tuple[Iterator[Run], dict[str, str]]:
    """The same, but runs of one arm with other settings are arms of their own; and what differs, by arm."""
    found = [run_folder for folder in folders for run_folder in run_folders(folder)]
    configs = [read_json(run_folder / "config.json") for run_folder in found]
    arms = arms_apart(
        [_arm(run_folder, read_json(run_folder / "meta.json")) for run_folder in found], configs
    )
    said = {
        f"settings of {arm}": ", ".join(f"{name} {value}" for name, value in own.items())
        for arm, own in zip(arms, differences(configs), strict=True)
        if own
    }
    runs = (replace(load_run(run_folder), arm=arm) for run_folder, arm in zip(found, arms, strict=True))
    return runs, said


def only_run(*folders: Path) -> Run | None:
    """The run of these folders, if it is just one; None if there are more."""
    found = [run_folder for folder in folders for run_folder in run_folders(folder)]
    return load_run(found[0]) if len(found) == 1 else None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not a JSON object")
    return content
