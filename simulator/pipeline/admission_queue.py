"""Who waits to be let in, and in which order?

First who was let in before and lost its engine or its environment. Then, by turns or in this order, requests
for validation, what was thrown away, and new rollouts, in order of prompts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple, NoReturn

from simulator.pipeline.rollout import Rollouts


class Returning(NamedTuple):
    """Who was let in once and lost its engine or its environment: it is not asked for again."""

    rollout_id: int | None
    """None to begin again as a new attempt; else it goes on with the tokens that it has made."""
    place: int
    tokens: int
    """Of the whole answer."""


class AdmissionQueue:
    """What the door keeps of those in front of it."""

    def __init__(self, *, table: Rollouts, lengths_tokens: Iterator[int], alternates: bool) -> None:
        self.table = table
        self.lengths_tokens = lengths_tokens
        self.next_place = 0
        self.again: deque[tuple[int, int]] = deque()
        """Places and tokens of rollouts that were thrown away and will be tried again, before new ones."""
        self.requests: deque[tuple[int, int]] = deque()
        """Places and tokens of validation rollouts that have not started."""
        self.alternates = alternates
        """Whether they take turns with rollouts for training, or come before them."""
        self._validation_came_last = False
        self.returning: deque[Returning] = deque()
        """They start before anything else does, without asking the rule."""
        self.held_slots = 0
        """Slots that stay free, since the group which ended there finds no room in the queue."""
        self.has_claims = False
        """Is there one of these two?"""

    def ask_again(self, place: int, tokens: int) -> None:
        """A rollout was thrown away; another attempt comes before anything new of its kind."""
        (self.again if place >= 0 else self.requests).append((place, tokens))

    def skip(self, group: int) -> list[tuple[int, int]]:
        """Start no more members of `group`; returns places and tokens of those that would have followed."""
        size = self.table.group_size
        skipped = []
        while self.next_place // size == group and self.next_place % size:
            skipped.append((self.next_place, next(self.lengths_tokens)))
            self.next_place += 1
        return skipped

    def come_back(self, one: Returning) -> None:
        """It starts or goes on as soon as it can; a knock must follow."""
        self.returning.append(one)
        self.has_claims = True

    def recall(self, which: Container[int]) -> list[int]:
        """Those of `which` that were to go on go no further."""
        gone = [one.rollout_id for one in self.returning if one.rollout_id in which]
        self._keep([one for one in self.returning if one.rollout_id not in which])
        return [i for i in gone if i is not None]

    def forget(self, groups: Container[int]) -> list[tuple[int, int]]:
        """Members of `groups` that were to begin again do not: their places and tokens."""
        size = self.table.group_size
        again = [one for one in self.returning if one.rollout_id is None and one.place // size in groups]
        if again:
            self._keep([one for one in self.returning if one not in again])
        tried = [attempt for attempt in self.again if attempt[0] // size in groups]
        if tried:
            self.again = deque(attempt for attempt in self.again if attempt not in tried)
        return [(one.place, one.tokens) for one in again] + tried

    def asked_again(self) -> list[int]:
        """Groups that have members which were let in before, and will start again or go on."""
        size = self.table.group_size
        return [place // size for place, _ in self.again] + [one.place // size for one in self.returning]

    def hold(self, slots: int) -> None:
        """So many more slots stay free; or fewer, and a knock must follow."""
        self.held_slots += slots
        self.has_claims = bool(self.returning) or self.held_slots > 0

    def _keep(self, returning: Sequence[Returning]) -> None:
        self.returning = deque(returning)
        self.hold(0)

    def _validation_is_next(self, *, others: bool) -> bool:
        if not self.requests:
            return False
        if self.alternates and others:
            self._validation_came_last = not self._validation_came_last
            return self._validation_came_last
        return True

    def _refuse_length(self, tokens: int) -> NoReturn:
        prompt, member = divmod(self.next_place, self.table.group_size)
        raise ValueError(
            f"prompt {prompt}, member {member}: a length of {tokens} tokens; at least 1 is needed"
        )
