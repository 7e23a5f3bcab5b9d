"""What goes wrong, and when? Engines crash, run slow; environments and pushes fail; the trainer stands still.

Every kind draws from streams of its own, by engine or by place, so that switching one on changes no other's
draws and none of the lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.streams import stream

Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
MeanSeconds: TypeAlias = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]


@final
class Failures(BaseModel):
    """All off by default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    engine_crash_every_s: MeanSeconds | None = None
    """Mean time that an engine is up between two crashes (exponential); None for no crash."""
    engine_restart_s: Seconds = 60.0
    """From a crash until the engine decodes again, with the newest weights."""
    after_crash: Literal["restart", "resume"] = "restart"
    """A rollout that ran there begins again from its prompt; or it goes on elsewhere, its whole prefix
    computed again."""
    environment_failure_probability: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Of an attempt, at a token that is uniform over its length."""
    incomplete_group: Literal["drop", "retry", "pad"] = "drop"
    """What becomes of a group that lost a member: see `rules.incomplete`."""
    group_deadline_s: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = None
    """From a group's first start; what is not complete then waits no longer. None for no deadline."""
    slow_engines: Annotated[int, Field(ge=0, le=10**7)] = 0
    """The first so many engines are stragglers."""
    slow_factor: Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)] = 1.0
    """By which everything that a straggler computes takes longer."""
    slow_every_s: MeanSeconds | None = None
    """Mean time between two slow spells of a straggler (exponential); None if it is always slow."""
    slow_for_s: MeanSeconds = 60.0
    """Mean length of a slow spell (exponential)."""
    trainer_stall_every_s: MeanSeconds | None = None
    """Mean time between the end of a stall and the next (exponential); None for no stall."""
    trainer_stall_s: Seconds = 60.0
    """How long the trainer then stands still."""
    push_failure_probability: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Of an attempt to push, after each number of engines less than all as likely."""
    push_retry_s: Seconds = 10.0
    """From there to the next attempt."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.slow_factor > 1 and self.slow_engines == 0:
            raise ValueError(f"slow_factor ({self.slow_factor}) has no effect with slow_engines 0")
        if self.slow_every_s is not None and self.slow_factor == 1:
            raise ValueError(f"slow_every_s ({self.slow_every_s}) has no effect with slow_factor 1")
        return self


Spells: TypeAlias = Iterator[tuple[float, float]]
"""(seconds in order, seconds out of order), in turn, for ever."""

FailsAfter: TypeAlias = Callable[[int, int, int], int | None]
"""(place, attempt, tokens of the whole answer) -> tokens made when the environment fails; None if not."""


BreaksOff: TypeAlias = Callable[[int], int | None]
"""Engines that an attempt to push is for -> how many have their weights when it breaks off; None if it does
not. Asked at each attempt."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What a run will meet. None where a kind never happens."""

    outages: Callable[[int], Spells] | None = None
    """Of each engine: up, down."""
    fails_after: FailsAfter | None = None
    slow_from_the_start: Callable[[int], float] | None = None
    """Of each engine: the factor that it is slow by."""
    slow_spells: Callable[[int], Spells | None] | None = None
    """Of each engine: at its speed, slow. None for an engine that is no straggler."""
    stalls: Spells | None = None
    """Of the trainer: able, stalled."""
    push_breaks_off: BreaksOff | None = None


def drawn_faults(failures: Failures, seed: int) -> Faults:
    """What `failures` brings to a run with this seed."""
    sometimes = failures.slow_every_s is not None
    slow = failures.slow_factor > 1
    probability = failures.environment_failure_probability
    return Faults(
        outages=partial(_outages, failures, seed) if failures.engine_crash_every_s is not None else None,
        fails_after=EnvironmentFailures(probability, seed).fails_after if probability > 0 else None,
        slow_from_the_start=partial(_factor, failures) if slow and not sometimes else None,
        slow_spells=partial(_slow_spells, failures, seed) if slow and sometimes else None,
        stalls=_stalls(failures, seed) if failures.trainer_stall_every_s is not None else None,
        push_breaks_off=_push_failures(failures, seed) if failures.push_failure_probability > 0 else None,
    )


def in_time(spells: Spells) -> Spells:
    """The same spells, each of them one that can pass.

    Raises:
        ValueError: as one comes up that is negative or not finite: a clock that takes it never goes on.
    """
    for first_s, then_s in spells:
        if not (0 <= first_s < math.inf and 0 <= then_s < math.inf):
            raise ValueError(f"spells must be finite and not negative, got ({first_s}, {then_s}) s")
        yield first_s, then_s


def spells(rng: np.random.Generator, mean_s: float, then_s: Callable[[], float]) -> Spells:
    """Exponential times in order; `then_s` says how long it is out of order."""
    while True:
        yield float(rng.exponential(mean_s)), then_s()


@final
class EnvironmentFailures:
    """Does this attempt fail, and where? A function of seed, place and attempt, whatever is asked first."""

    def __init__(self, probability: float, seed: int) -> None:
        self.probability = probability
        self.seed = seed
        self._blocks: dict[tuple[int, int], NDArray[np.float64]] = {}

    def fails_after(self, place: int, attempt: int, tokens: int) -> int | None:
        """Tokens that are made before the failure, 1 to `tokens`, each as likely; None without one.

        Args:
            place: of the rollout, prompt_id * group_size + member.
            attempt: 0 for the first.
            tokens: of the answer, had it come to its end.
        """
        block, row = divmod(place, _BLOCK_ROLLOUTS)
        drawn = self._blocks.get((attempt, block))
        if drawn is None:
            drawn = self._keep(attempt, block)
        fails, where = drawn[row]
        return 1 + int(where * tokens) if fails < self.probability else None

    def _keep(self, attempt: int, block: int) -> NDArray[np.float64]:
        # Places come nearly in order; an older block could always be drawn again.
        if len(self._blocks) >= 4:
            del self._blocks[next(iter(self._blocks))]
        drawn = stream(self.seed, "failures", _ENVIRONMENT, attempt, block).random((_BLOCK_ROLLOUTS, 2))
        self._blocks[attempt, block] = drawn
        return drawn


def _outages(failures: Failures, seed: int, engine: int) -> Spells:
    assert failures.engine_crash_every_s is not None
    rng = stream(seed, "failures", _CRASHES, engine)
    return spells(rng, failures.engine_crash_every_s, lambda: failures.engine_restart_s)


def _factor(failures: Failures, engine: int) -> float:
    return failures.slow_factor if engine < failures.slow_engines else 1.0


def _slow_spells(failures: Failures, seed: int, engine: int) -> Spells | None:
    assert failures.slow_every_s is not None
    if engine >= failures.slow_engines:
        return None
    rng = stream(seed, "failures", _SLOW, engine)
    return spells(rng, failures.slow_every_s, lambda: float(rng.exponential(failures.slow_for_s)))


def _stalls(failures: Failures, seed: int) -> Spells:
    assert failures.trainer_stall_every_s is not None
    rng = stream(seed, "failures", _STALLS)
    return spells(rng, failures.trainer_stall_every_s, lambda: failures.trainer_stall_s)


def _push_failures(failures: Failures, seed: int) -> BreaksOff:
    rng = stream(seed, "failures", _PUSHES)

    def breaks_off(engines: int) -> int | None:
        fails, where = rng.random(2)
        return int(where * engines) if fails < failures.push_failure_probability else None

    return breaks_off


_CRASHES: Final = 0
_ENVIRONMENT: Final = 1
_SLOW: Final = 2
_STALLS: Final = 3
_PUSHES: Final = 4
_BLOCK_ROLLOUTS: Final = 4096
