"""The door before the slots: which rollout starts next, and may it start now?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.instant import ADMISSION, Turn, nothing_else_now
from simulator.pipeline.rollout import Rollout
from simulator.pipeline.weights import Weights
from simulator.rules.admission import Admission
from simulator.rules.counts import Counts


@final
class Door:
    """Lets rollouts start in order of prompts, members of a group one after another.

    An answer of the rule is used up before the rule is asked again: it can only have grown since.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        admission: Admission,
        counts: Callable[[], Counts],
        ledger: Ledger,
        weights: Weights,
        length_tokens: Callable[[int, int], int],
        group_size: int,
        seconds_per_token: float,
    ) -> None:
        self.env = env
        self.admission = admission
        self.counts = counts
        self.ledger = ledger
        self.weights = weights
        self.length_tokens = length_tokens
        self.group_size = group_size
        self.seconds_per_token = seconds_per_token
        self.allowance = 0
        self.waiting: deque[tuple[int, simpy.Event]] = deque()
        """Engine of each free slot that waits, and the event that wakes it."""
        self.in_flight: dict[int, Rollout] = {}
        self._turn_is_taken = False

    def enter(self, engine: int) -> Rollout | None:
        """The next rollout for a free slot of `engine`, or None if it has to wait."""
        if self.waiting or not nothing_else_now(self.env):
            return None
        if self.allowance < 1:
            self.allowance = self.admission(self.counts())
            if self.allowance < 1:
                return None
        return self._start(engine)

    def wait(self, engine: int) -> simpy.Event:
        """Succeeds with the next rollout once the rule lets it start."""
        event = simpy.Event(self.env)
        self.waiting.append((engine, event))
        self.knock()
        return event

    def knock(self) -> None:
        """Something changed that the rule may look at: ask it again, at the end of this instant."""
        if self.waiting and not self._turn_is_taken:
            self._turn_is_taken = True
            turn = Turn(self.env, ADMISSION)
            assert turn.callbacks is not None
            turn.callbacks.append(self._open)

    def _open(self, _turn: simpy.Event) -> None:
        self._turn_is_taken = False
        self.allowance = self.admission(self.counts())
        while self.waiting and self.allowance > 0:
            engine, event = self.waiting.popleft()
            event.succeed(self._start(engine))

    def _start(self, engine: int) -> Rollout:
        self.allowance -= 1
        rollout_id = self.ledger.generated_rollouts
        group_id, member = divmod(rollout_id, self.group_size)
        tokens = self.length_tokens(group_id, member)
        if tokens < 1:
            raise ValueError(
                f"prompt {group_id}, member {member}: a length of {tokens} tokens; at least 1 is needed"
            )
        self.ledger.start(tokens)
        rollout = Rollout(
            rollout_id=rollout_id,
            prompt_id=group_id,
            group_id=group_id,
            member=member,
            engine=engine,
            action_tokens=tokens,
            weights=self.weights,
            publishes_before=self.weights.latest,
            started_s=self.env.now,
            seconds_per_token=self.seconds_per_token,
        )
        self.in_flight[rollout_id] = rollout
        return rollout
