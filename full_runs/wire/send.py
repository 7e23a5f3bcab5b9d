"""One tensor after another to all engines; what was sent, by its digests; and who did not get it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

from torch import Tensor

from full_runs.engine.layout import digest
from full_runs.wire.lines import Line, Opened


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a trainer says of a push."""

    version: int
    """Updates that the weights have seen."""
    sent: Mapping[str, str]
    """Digest of every tensor as it was sent, by its published name."""
    failed: Mapping[int, str]
    """Lines that broke, and why."""


def joined_lines(opened: Opened) -> tuple[dict[int, Line], dict[int, str]]:
    """All lines whose engine came, and why the others are missing; they are waited for at the same time."""

    def join(one: Callable[[], Line]) -> Line | str:
        try:
            return one()
        except RuntimeError as error:
            return f"the engine did not join: {_short(error)}"

    with ThreadPoolExecutor(max_workers=max(len(opened.joins), 1)) as threads:
        found = dict(enumerate(threads.map(join, opened.joins)))
    lines = {number: line for number, line in found.items() if not isinstance(line, str)}
    return lines, {number: line for number, line in found.items() if isinstance(line, str)}


def send(
    weights: Iterable[tuple[str, Tensor]], lines: dict[int, Line], digests: dict[str, str]
) -> dict[int, str]:
    """Send all of them over all lines; why a line broke, by its number.

    No tensor is held longer than its turn lasts. The weights are walked through to their end even if no line
    is left, since other ranks walk with this one.

    Args:
        lines: those that break are closed and removed.
        digests: told of each tensor while it travels.
    """
    failed: dict[int, str] = {}
    for name, tensor in weights:
        failed |= _one(name, tensor, lines, digests)
        del tensor  # the next one is gathered before the loop binds the name again
    return failed


def _one(name: str, tensor: Tensor, lines: dict[int, Line], digests: dict[str, str]) -> dict[int, str]:
    waits: dict[int, Callable[[], object]] = {}
    failed: dict[int, str] = {}

    def give_up(number: int, error: RuntimeError) -> None:
        failed[number] = f"the line broke at {name}: {_short(error)}"
        lines.pop(number).close()

    for number, line in list(lines.items()):
        try:
            waits[number] = line.send(tensor)
        except RuntimeError as error:
            give_up(number, error)
    digests[name] = digest(tensor)
    for number, wait in waits.items():
        try:
            wait()
        except RuntimeError as error:
            give_up(number, error)
    return failed


def _short(error: RuntimeError) -> str:
    return " ".join(str(error).split())[:200]
