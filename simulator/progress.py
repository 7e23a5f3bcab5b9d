"""How far is it? A bar on stderr, where stderr is a terminal; a line now and then where it is not."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SAY_EVERY_S = 10.0


@contextlib.contextmanager
def progress(total: int, unit: str, *, silent: bool) -> Iterator[Callable[[], None]]:
    """A function to call after each of `total` steps, each one `unit`."""
    if silent or total == 0:
        yield lambda: None
        return
    if not sys.stderr.isatty():
        yield _printing(total, unit)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=total)
        yield lambda: bar.advance(task)


def _printing(total: int, unit: str) -> Callable[[], None]:
    done, said_s = 0, time.monotonic()

    def advance() -> None:
        nonlocal done, said_s
        done += 1
        if time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            print(f"{done} of {total} {unit}", file=sys.stderr, flush=True)

    return advance
