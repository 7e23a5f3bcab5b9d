"""Attempts whose environment fails, groups whose time is up, and what becomes of such a group."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.admission import Door
from simulator.pipeline.admission_queue import Returning
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.discards import Attempt, Discards
from simulator.pipeline.instant import COMPLETION, TRAINER, at
from simulator.pipeline.rollout import Rollouts
from simulator.rules.incomplete import Incomplete, Members
from simulator.world.failures import FailsAfter

_MOST_ATTEMPTS: Final = 1000
"""Of one prompt, each of them too late, without one update in between: more is a loop, not bad luck."""


@final
@dataclass(slots=True, eq=False)
class _Open:
    """A group that has started and is not complete."""

    group: int
    valid: int = 0
    failed: list[Attempt] = field(default_factory=list)


@final
class Losses:
    """Looks at every rollout that starts and ends, in runs where something can fail.

    A failing attempt is started with the tokens that it will make until it fails. Its row says when, and
    `environment_failed`; what that costs its group is settled at the end of the same instant.

    Args:
        give_up: called with what goes on for ever; raises.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        table: Rollouts,
        ledger: Ledger,
        discards: Discards,
        door: Door,
        buffer: Buffer,
        fails_after: FailsAfter | None,
        incomplete: Incomplete,
        deadline_s: float | None,
        give_up: Callable[[str], None],
    ) -> None:
        self.env = env
        self.table = table
        self.ledger = ledger
        self.discards = discards
        self.door = door
        self.buffer = buffer
        self.fails_after = fails_after
        self.incomplete = incomplete
        self.deadline_s = deadline_s
        self.give_up = give_up
        self.open: dict[int, _Open] = {}
        self.counts: Counter[str] = Counter()
        self._next_new = 0
        self._attempts: dict[int, int] = {}
        """Of places that were started more than once."""
        self._due: deque[tuple[float, _Open]] = deque()
        self._to_settle: dict[int, _Open] = {}
        self._too_late: Counter[int] = Counter()
        self._too_late_since = 0
        """How often groups were dropped at their deadlines, since this version."""

    def started(self, place: int, tokens: int) -> int:
        """An attempt starts: the tokens that it will make."""
        group = place // self.table.group_size
        if group not in self.open:
            opened = self.open[group] = _Open(group)
            if self.deadline_s is not None:
                self._due.append((self.env.now + self.deadline_s, opened))
                if len(self._due) == 1:
                    at(self.env, self._due[0][0], TRAINER, self._deadline)
        attempt = 0
        if place < self._next_new:
            attempt = self._attempts[place] = self._attempts.get(place, 0) + 1
        else:
            self._next_new = place + 1
        made = None if self.fails_after is None else self.fails_after(place, attempt, tokens)
        if made is None:
            return tokens
        self.discards.whole[len(self.table)] = tokens
        return made

    def ended(self, rollout_id: int) -> None:
        """An attempt came to its end, or its environment failed."""
        place = self.table.place[rollout_id]
        group = self.open[place // self.table.group_size]
        whole = self.discards.whole.pop(rollout_id, None)
        if whole is None:
            group.valid += 1
            if group.valid == self.table.group_size:
                del self.open[group.group]
            self.buffer.add(rollout_id)
        else:
            self.counts["environment_failures"] += 1
            group.failed.append((place, whole))
            self.ledger.drop("in_flight", "environment_failed", 1, self.table.tokens[rollout_id])
            self.discards.note([rollout_id], "environment_failed", complete=False)
        if group.failed:
            if not self._to_settle:
                at(self.env, self.env.now, COMPLETION, self._settle_all)
            self._to_settle[group.group] = group

    def given_up(self, group: int) -> None:
        """It was thrown away: if it starts again, then as a new one."""
        self.open.pop(group, None)

    def _settle_all(self, _event: simpy.Event) -> None:
        groups = list(self._to_settle.values())
        self._to_settle.clear()
        for group in groups:
            self._settle(group, overdue=False)

    def _deadline(self, _event: simpy.Event) -> None:
        now_s = self.env.now
        while self._due and (
            self._due[0][0] <= now_s or self.open.get(self._due[0][1].group) is not self._due[0][1]
        ):
            _, group = self._due.popleft()
            if self.open.get(group.group) is group:
                self.discards.end_now(group.group)
                self._settle(group, overdue=True)
        if self._due:
            at(self.env, self._due[0][0], TRAINER, self._deadline)

    def _settle(self, group: _Open, *, overdue: bool) -> None:
        if self.open.get(group.group) is not group:
            return
        if overdue:
            self.counts["groups_overdue"] += 1
        reason = "group_deadline" if overdue else "group_incomplete"
        members = Members(
            group_size=self.table.group_size, valid=group.valid, failed=len(group.failed), overdue=overdue
        )
        verdict = self.incomplete(members)
        if verdict == "retry":
            self.counts["members_retried"] += len(group.failed)
            for place, tokens in group.failed:
                self.door.come_back(Returning(None, place, tokens))
            group.failed.clear()
            self.door.knock()
        elif verdict == "drop":
            self.counts["groups_dropped"] += 1
            self.discards.give_up(group.group, reason, also=group.failed)
            if overdue:
                self._look_for_a_loop(group.group)
        elif verdict == "ship":
            self.counts["groups_padded"] += 1
            self.counts["copies"] += self.table.group_size - group.valid
            self.discards.ship(group.group, reason, also=group.failed)

    def _look_for_a_loop(self, group: int) -> None:
        """A prompt that is tried again and can never be in time keeps the clock going for ever."""
        version = self.discards.version()
        if version > self._too_late_since:
            self._too_late_since = version
            self._too_late.clear()
        self._too_late[group] += 1
        if self._too_late[group] >= _MOST_ATTEMPTS:
            self.give_up(
                f"group {group} missed its deadline of {self.deadline_s:g} s {_MOST_ATTEMPTS} times since the"
                " last update, and was tried again each time,"
            )
