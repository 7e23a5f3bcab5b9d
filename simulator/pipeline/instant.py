"""What comes first when times are equal, and how does the clock move?

Completions, then what the trainer does, then publishes, then what environments give back, then admissions,
whatever the order in which processes were created. A rollout that ends as new weights arrive was made by
the old ones; one that starts then is made by the new ones.

SimPy orders equal times by priority, then by age of the event, so later things wait for a `Turn`: an event
at this very instant, behind everything of a lower number.

Rollouts end far more often than anything else happens, and between two other events nobody looks. So the
engines move the clock themselves, from one completion to the next, up to the next event in SimPy's list
(`Fleet._work`). SimPy's own calls know delays only, and now + (t - now) need not be t: hence `at`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Final, final

import simpy
from simpy.events import EventPriority

COMPLETION: Final = 0  # SimPy's URGENT
TRAINER: Final = 1  # SimPy's NORMAL: timeouts and succeed()
PUBLISH: Final = 2
RETURN: Final = 3
"""Of environments."""
ADMISSION: Final = 4


_ROUNDING: Final = 1e-9
"""Relative error that sums of times may have."""


@final
class Turn(simpy.Event):
    """This instant, once everything of a precedence below `precedence` has happened."""

    def __init__(self, env: simpy.Environment, precedence: int) -> None:
        super().__init__(env)
        self._ok = True  # born triggered, as simpy.Timeout is
        self._value = None
        env.schedule(self, EventPriority(precedence))


@final
class _Appointment(simpy.Event):
    """A given time, to the last digit."""

    def __init__(self, env: simpy.Environment, time_s: float, precedence: int) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        heappush(env._queue, (time_s, EventPriority(precedence), next(env._eid), self))


def at(env: simpy.Environment, time_s: float, precedence: int, call: Callable[[simpy.Event], None]) -> None:
    """Call at `time_s`, not before now."""
    event = _Appointment(env, time_s, precedence)
    assert event.callbacks is not None
    event.callbacks.append(call)


def just_before(time_s: float) -> float:
    """Whatever is due between here and `time_s` is due at `time_s`, but for rounding.

    A million additions of a tenth end 1.3e-11 away from 100,000, relatively.
    """
    return time_s * (1 - _ROUNDING)


def nothing_else_now(env: simpy.Environment) -> bool:
    """Is everything of this instant done? Then a turn can be taken at once, without an event."""
    return env.peek() > env.now
