"""What comes first when times are equal?

Completions, then publishes, then admissions, whatever the order in which processes were created. A rollout
that ends as new weights arrive was made by the old ones; one that starts then is made by the new ones.

SimPy orders equal times by priority, then by age of the event, so later things wait for a `Turn`: an event
at this very instant, behind everything of a lower number. The trainer needs none: it takes a batch the
moment it is there, and while it waits for one nothing can be published.
"""

from __future__ import annotations

from typing import Final, final

import simpy
from simpy.events import EventPriority

COMPLETION: Final = 1  # SimPy's NORMAL: timeouts and succeed()
PUBLISH: Final = 2
ADMISSION: Final = 3


@final
class Turn(simpy.Event):
    """This instant, once everything of a precedence below `precedence` has happened."""

    def __init__(self, env: simpy.Environment, precedence: int) -> None:
        super().__init__(env)
        self._ok = True  # born triggered, as simpy.Timeout is
        self._value = None
        env.schedule(self, EventPriority(precedence))


def nothing_else_now(env: simpy.Environment) -> bool:
    """Is everything of this instant done? Then a turn can be taken at once, without an event."""
    return env.peek() > env.now
