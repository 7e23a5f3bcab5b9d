"""How does a process stay on its cores? `python -m full_runs.pinned CORES COMMAND ...`.

It takes the cores and becomes the command; whatever that starts, threads and processes, inherits them. This
comes before any library is imported that makes as many threads as it sees cores.

With several parts, `0,1:2,3`, the part is the process's that torchrun counts by `LOCAL_RANK`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Cores: TypeAlias = Sequence[int]


def usable() -> frozenset[int] | None:
    """Cores that this process may use; None where the system pins no process."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return frozenset(os.sched_getaffinity(0))


def stay(cores: Cores) -> None:
    """This process, with the threads that it has, stays on these from now on."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cores)


def words(parts: Iterable[Cores]) -> list[str]:
    """What comes before a command."""
    said = ":".join(",".join(map(str, part)) for part in parts)
    return [sys.executable, "-m", "full_runs.pinned", said]


def part_of(said: str, variables: Mapping[str, str]) -> frozenset[int]:
    """The cores of this process."""
    parts = said.split(":")
    own = parts[int(variables["LOCAL_RANK"])] if len(parts) > 1 else parts[0]
    return frozenset(int(core) for core in own.split(","))


def main(said: str, command: list[str]) -> None:
    """Become `command`, on these cores."""
    os.sched_setaffinity(0, part_of(said, os.environ))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
