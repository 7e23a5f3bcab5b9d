"""What does a person see of a run while it goes on? A bar and its last numbers; where nobody looks, lines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Final, Protocol, final

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress
from rich.text import Text

from simulator.progress import Pace, columns, duration, redraws

SHOWN: Final = (
    "reward",
    "accuracy",
    "oldest_lag_mean",
    "k3",
    "masked_fraction",
    "explained_variance",
    "push_s",
)
"""Of an update, in this order, where it has them."""


class Screen(Protocol):
    """Told what happens."""

    def say(self, words: str, /) -> None:
        """Something that is no update."""
        ...

    def told(self, version: int, metrics: Mapping[str, float], /) -> None:
        """An update is done."""
        ...


@contextlib.contextmanager
def screen(updates: int, *, silent: bool, console: Console | None = None) -> Iterator[Screen]:
    """Who is told, for as long as a run goes on.

    Args:
        updates: of the whole run.
        silent: say nothing.
        console: stderr, unless another is given.
    """
    console = console or Console(stderr=True)
    if silent:
        yield _Nobody()
    elif redraws(console):
        bar = Bar(updates, console)
        with Live(get_renderable=bar.drawn, console=console, transient=True, refresh_per_second=2):
            yield bar
    else:
        yield _Lines(updates, console)


def numbers(metrics: Mapping[str, float]) -> str:
    """Of an update, as it is shown."""
    return "  ".join(f"{name} {metrics[name]:.3g}" for name in SHOWN if name in metrics)


@final
class _Nobody:
    def say(self, words: str) -> None:
        pass

    def told(self, version: int, metrics: Mapping[str, float]) -> None:
        pass


@final
class _Lines:
    def __init__(self, updates: int, console: Console) -> None:
        self._updates, self._console = updates, console

    def say(self, words: str) -> None:
        _print(self._console, words)

    def told(self, version: int, metrics: Mapping[str, float]) -> None:
        self.say(f"{version} of {self._updates} updates  {numbers(metrics)}")


@final
class Bar:
    """Its first update starts the clock: engines take a minute to come, which says nothing of the rest."""

    def __init__(self, updates: int, console: Console) -> None:
        self._updates, self._console = updates, console
        self._last: int | None = None
        self._last_s = time.monotonic()
        self._numbers = ""
        self._begin(0)

    def say(self, words: str) -> None:
        _print(self._console, words)

    def told(self, version: int, metrics: Mapping[str, float]) -> None:
        # A run that goes on from a checkpoint starts anywhere, and one whose trainer died goes back.
        if self._last is None or version != self._last + 1:
            self._begin(version)
        else:
            self._pace.step()
        self._bar.update(self._task, completed=version)
        self._last, self._last_s, self._numbers = version, time.monotonic(), numbers(metrics)

    def drawn(self) -> Group:
        """The bar, and below it what the last update saw and how long ago."""
        if self._last is None:
            return Group(self._bar)
        ago = duration(time.monotonic() - self._last_s)
        return Group(self._bar, Text(f"{self._numbers}  ({ago} ago)", style="dim"))

    def _begin(self, done: int) -> None:
        self._pace = Pace(self._updates - done)
        self._bar = Progress(*columns(self._pace), console=self._console)
        self._task = self._bar.add_task("updates", total=self._updates, completed=done)


def _print(console: Console, words: str) -> None:
    """As it is: no markup is read in it, nothing is coloured, no line is cut."""
    console.print(words, markup=False, highlight=False, emoji=False, soft_wrap=True)
