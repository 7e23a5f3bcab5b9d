"""Which cores of this host are the trainer's and which the engines', and which of them are whose?

Numbers are the operating system's, written as taskset writes them: `0-3,6`. The controller goes where the
system puts it, on cores of the others too, unless it has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

SETTINGS: Final = ("trainer_cores", "engine_cores", "controller_cores")
Cores: TypeAlias = tuple[int, ...]
"""Numbers, ascending."""
_RANGE: Final = re.compile(r"\s*([0-9]{1,5})(?:\s*-\s*([0-9]{1,5}))?\s*")
_MOST: Final = 2**16
"""No host has as many; so a slip of the finger fills no memory."""


class OnCores(BaseModel):
    """Cores of their own, for ranks and engines on processors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    trainer_cores: str | None = None
    """On processors: cores of this host, as in `0-3,6`. Each rank stays on its part of them, a thread a
    core. None: wherever the system puts it."""
    engine_cores: str | None = None
    """The same for the engines that are started here, `engine_threads` on the part of each."""
    controller_cores: str | None = None
    """The same for the process that asks, pushes and writes, and for what its environments start; it may
    share them with the others. What it starts would stay there too, so trainer and engines need theirs."""
    engine_threads: Annotated[int, Field(ge=1, le=10**7)] = 1
    """On processors: of each engine process; at most the cores of an engine, if these are set."""

    @field_validator(*SETTINGS, mode="before")
    @classmethod
    def _are_numbers(cls, given: Any) -> str | None:
        return None if given is None else as_text(numbers(given))


def numbers(given: Any) -> Cores:
    """Cores that are named by text, by a number or by several; ascending.

    Raises:
        ValueError: it names none, one twice, or something else.
    """
    if isinstance(given, bool) or not isinstance(given, str | int | list | tuple):
        raise ValueError(f"{given!r} is no list of cores such as 0-3,6")
    parts: Any = given.split(",") if isinstance(given, str) else [given] if isinstance(given, int) else given
    found: set[int] = set()
    for part in parts:
        more = _range(part, given)
        if twice := found.intersection(more):
            raise ValueError(f"{given!r} names core {min(twice)} twice")
        found.update(more)
    if not found:
        raise ValueError(f"{given!r} names no core")
    return tuple(sorted(found))


def _range(part: Any, given: Any) -> Iterable[int]:
    written = str(part) if isinstance(part, int) and not isinstance(part, bool) else part
    read = _RANGE.fullmatch(written) if isinstance(written, str) else None
    if read is None:
        raise ValueError(f"{given!r} is no list of cores such as 0-3,6")
    first, last = int(read[1]), int(read[2] or read[1])
    if last < first or last >= _MOST:
        raise ValueError(f"{given!r}: {written.strip()} is no range of cores")
    return range(first, last + 1)


def as_text(cores: Cores) -> str:
    """Ascending numbers as ranges: 0, 1, 2, 6 are `0-2,6`."""
    known = set(cores)
    starts = [core for core in cores if core - 1 not in known]
    ends = [core for core in cores if core + 1 not in known]
    ranges = zip(starts, ends, strict=True)
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in ranges)


def shared_out(text: str | None, parts: int) -> tuple[Cores, ...]:
    """The cores of each rank or engine: contiguous parts of one size, in order.

    Where there are fewer cores than parts, as many parts stand on each core (*choice*: so one core can be
    the trainer's, however many ranks it has).

    Args:
        text: of the cores; None gives no part.

    Raises:
        ValueError: neither number is a multiple of the other.
    """
    if text is None:
        return ()
    cores = numbers(text)
    if len(cores) % parts == 0:
        each = len(cores) // parts
        return tuple(cores[place * each : (place + 1) * each] for place in range(parts))
    if parts % len(cores) == 0:
        return tuple((cores[place * len(cores) // parts],) for place in range(parts))
    raise ValueError("neither is a multiple of the other")


def check(cores: OnCores, *, ranks: int, trainer_nodes: int, engines: int, elsewhere: int, gpus: int) -> None:
    """Refuse cores that have no meaning beside these settings.

    Args:
        elsewhere: engines that somebody else started.

    Raises:
        ValueError: naming the setting and both values.
    """
    trainer, engine, controller = cores.trainer_cores, cores.engine_cores, cores.controller_cores
    if controller is not None and gpus:
        raise ValueError(
            f"controller_cores is {controller} and gpus {gpus}: cores are shared out on processors only"
        )
    for name, text, count in (
        ("trainer_cores", trainer, ranks),
        ("engine_cores", engine, engines - elsewhere),
    ):
        if controller is not None and text is None and count:
            raise ValueError(
                f"controller_cores is {controller} and {name} None: what it starts would stay there"
            )
    for name, text, of, count in (
        ("trainer_cores", trainer, "ranks", ranks),
        ("engine_cores", engine, "engines", engines),
    ):
        if text is None:
            continue
        if gpus:
            raise ValueError(f"{name} is {text} and gpus {gpus}: cores are shared out on processors only")
        try:
            shared_out(text, count)
        except ValueError as uneven:
            many = len(numbers(text))
            raise ValueError(f"{name} ({text}) are {many} and {of} is {count}: {uneven}") from None
    if trainer is not None and trainer_nodes > 1:
        raise ValueError(
            f"trainer_cores is {trainer} and trainer_nodes {trainer_nodes}: they are cores of one host"
        )
    if engine is None:
        return
    if elsewhere:
        raise ValueError(
            f"engine_cores is {engine} and engine_urls names {elsewhere}: engines that run already stay where"
            " they are"
        )
    if cores.engine_threads > (each := len(shared_out(engine, engines)[0])):
        raise ValueError(
            f"engine_threads ({cores.engine_threads}) are more than the cores of an engine ({each} of"
            f" engine_cores {engine})"
        )
