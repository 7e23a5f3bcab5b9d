"""How far is it? A bar on stderr if that is a terminal that can redraw one; else a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

_SAY_EVERY_S = 10.0


@contextlib.contextmanager
def progress(total: int, unit: str, *, silent: bool, already: int = 0) -> Iterator[Callable[[], None]]:
    """A function to call after each step that is left.

    Args:
        total: steps, each one `unit`.
        silent: say nothing.
        already: of them, done before; they count as done, and not for the time that is left.
    """
    if silent or total == already:
        yield lambda: None
        return
    pace, console = Pace(total - already), Console(stderr=True)
    if not redraws(console):
        yield _printing(total, unit, already, pace)
        return
    with Progress(*columns(pace), console=console, transient=True) as bar:
        task = bar.add_task(unit, total=total, completed=already)

        def advance() -> None:
            pace.step()
            bar.advance(task)

        yield advance


def redraws(console: Console) -> bool:
    """A file or a pipe does not, nor does a terminal that says it is dumb."""
    return console.is_terminal and not console.is_dumb_terminal


@final
class Pace:
    """Time that is left if steps go on as they went so far: right for a few long ones as for many short."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done = steps, 0
        self._begin_s = self._last_s = time.monotonic()

    def step(self) -> None:
        self._done += 1
        self._last_s = time.monotonic()

    def left_s(self) -> float | None:
        """None before the first step has ended."""
        if not self._done:
            return None
        from_last_s = (self._last_s - self._begin_s) / self._done * (self._steps - self._done)
        return max(0.0, from_last_s - (time.monotonic() - self._last_s))


def columns(pace: Pace) -> tuple[ProgressColumn, ...]:
    """Of a bar: what is counted, the bar, how many of how many, the time that is left."""
    return (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Left(pace))


class _Left(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:  # noqa: ARG002 - the pace is that of the only task
        left_s = self._pace.left_s()
        return Text("" if left_s is None else f"{duration(left_s)} left", style="progress.remaining")


def duration(seconds: float) -> str:
    """In words of a reader who waits: `42 s`, `3 min`, `2 h 10 min`, `3 d 4 h`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"


def _printing(total: int, unit: str, already: int, pace: Pace) -> Callable[[], None]:
    done, said_s = already, time.monotonic()

    def advance() -> None:
        nonlocal done, said_s
        done += 1
        pace.step()
        if time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            left = f", about {duration(pace.left_s() or 0.0)} left" if done < total else ""
            print(f"{done} of {total} {unit}{left}", file=sys.stderr, flush=True)

    return advance
