"""Which groups are complete, which of them make a batch, and where is every rollout?

Pure bookkeeping: no clock, no network. Decisions are `simulator.rules`; the sums are `simulator.ledger`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from full_runs.controller.records import Asked, Group, Made
from full_runs.controller.resume import Past
from simulator.ledger import Ledger
from simulator.rules.counts import Counts
from simulator.rules.incomplete import Incomplete, Members, Verdict
from simulator.rules.selection import Candidate, Take
from simulator.rules.staleness import Staleness

OnDrop = Callable[[Made, str], None]


@final
class Buffer:
    """Groups that wait for members, and the queue of those that are complete.

    Args:
        rule: about old data.
        incomplete: about groups that lost a member.
        batch_rollouts: what the trainer takes at once.
        group_size: rollouts that answer one prompt.
        most_tokens: cap on what the model may say in a rollout: what one counts with until it is finished.
        on_drop: told of each finished rollout that is thrown away, and why.
        uniform: random numbers in [0, 1) for a selection that draws.
    """

    def __init__(
        self,
        rule: Staleness,
        incomplete: Incomplete,
        *,
        batch_rollouts: int,
        group_size: int,
        most_tokens: int,
        on_drop: OnDrop,
        uniform: Callable[[], float],
    ) -> None:
        self.rule = rule
        self.incomplete = incomplete
        self.batch_rollouts = batch_rollouts
        self.group_size = group_size
        self.most_tokens = most_tokens
        self.on_drop = on_drop
        self.uniform = uniform
        self.ledger = Ledger(checks_always=True)
        self.queue: list[Group] = []
        self.running: dict[int, Asked] = {}
        self.waiting: dict[int, list[Made]] = {}
        self.failed: dict[int, int] = {}
        """Group -> members without a result."""
        self.dead: set[int] = set()
        """Groups that were thrown away while members ran."""
        self.copies_queued = self.copies_trained = 0
        self.taken_batches = 0
        self.started_with: dict[int, int] = {}
        """Unfinished group -> version that its first member started with."""
        self._lost = self._started_at_publish = self._outstanding_at_publish = 0

    def recall(self, past: Past) -> None:
        """Count what earlier processes of this run trained and dropped."""
        for row in (*past.over, *past.lost_rows()):
            tokens = row.get("action_tokens") or 0
            if row["status"] == "trained":
                self.ledger.start(tokens, "trained")
            else:
                self.ledger.start(tokens)
                self.ledger.drop("in_flight", row["reason"], 1, tokens)
        self.taken_batches = past.version
        self.copies_trained = past.version * self.batch_rollouts - self.ledger.rollouts["trained"]
        self.published()

    def start(self, asked: Asked, engine_version: int) -> None:
        """An engine is about to be asked."""
        self.ledger.start(self.most_tokens)
        self.running[asked.rollout_id] = asked
        self.started_with.setdefault(asked.group_id, engine_version)

    def finish(self, made: Made) -> Group | None:
        """A rollout is there; its group, if that is complete now."""
        group = made.asked.group_id
        del self.running[made.asked.rollout_id]
        self.ledger.cut("in_flight", self.most_tokens - made.tokens)
        if group in self.dead:
            self._drop(made, "in_flight", "incomplete_group")
            return None
        self.ledger.move("in_flight", "waiting", 1, made.tokens)
        members = self.waiting.setdefault(group, [])
        members.append(made)
        if len(members) < self.group_size and not self.failed.get(group):
            return None
        return self._judge(group, made.finished_s)[1]

    def fail(self, asked: Asked, reason: str, now_s: float) -> tuple[Verdict, Group | None]:
        """A rollout will have no result: what the rule says of its group, and the group if it is shipped.

        "retry" asks the caller to ask for this rollout again.
        """
        del self.running[asked.rollout_id]
        self.ledger.cut("in_flight", self.most_tokens)
        self.ledger.drop("in_flight", reason, 1, 0)
        self._lost += 1
        if asked.group_id in self.dead:
            return "drop", None
        self.failed[asked.group_id] = self.failed.get(asked.group_id, 0) + 1
        return self._judge(asked.group_id, now_s)

    def retried(self, group_id: int) -> None:
        """A failed member was asked for again."""
        self.failed[group_id] -= 1

    def take(self, version: int) -> list[Group] | None:
        """The next batch for a trainer that holds `version`, or None if there is none yet.

        What the age limit refuses is dropped first, whole groups at a time.
        """
        fresh = []
        for group in self.queue:
            if self.rule.age_limit(version - group.oldest_version):
                self._drop_group(group, "too_old")
            else:
                fresh.append(group)
        self.queue = fresh
        candidates = [
            Candidate(
                submitted_index=group.group_id,
                oldest_version=group.oldest_version,
                newest_version=group.newest_version,
                rollouts=self.group_size,
            )
            for group in self.queue
        ]
        unfinished = sorted(self.started_with)
        chosen = self.rule.selection(
            candidates,
            Take(
                batch_rollouts=self.batch_rollouts,
                version=version,
                taken_batches=self.taken_batches,
                updates_per_batch=1,
                oldest_running_version=min(self.started_with.values(), default=None),
                unfinished_indices=unfinished,
                uniform=self.uniform,
            ),
        )
        if chosen is None:
            return None
        places = set(chosen)
        batch = [self.queue[place] for place in chosen]
        self.queue = [group for place, group in enumerate(self.queue) if place not in places]
        for group in batch:
            self.copies_queued -= group.copies
            for made in group.distinct:
                self.ledger.move("queued", "training", 1, made.tokens)
        self.taken_batches += 1
        return batch

    def trained(self, batch: list[Group]) -> None:
        """The update on this batch is done."""
        for group in batch:
            self.copies_trained += group.copies
            for made in group.distinct:
                self.ledger.move("training", "trained", 1, made.tokens)

    def published(self) -> None:
        """Engines have just got weights."""
        self._started_at_publish = self.ledger.generated_rollouts - self._lost
        self._outstanding_at_publish = self._outstanding()

    def counts(self, *, engine_version: int, trainer_version: int) -> Counts:
        """What rules may look at."""
        held = self.ledger.rollouts
        started, copies = self.ledger.generated_rollouts, self.copies_queued
        return Counts(
            submitted_rollouts=started - held["dropped"] + copies + self.copies_trained,
            running_rollouts=held["in_flight"],
            outstanding_rollouts=self._outstanding(),
            waiting_rollouts=held["waiting"],
            queued_rollouts=held["queued"] + copies,
            trained_rollouts=held["trained"] + self.copies_trained,
            submitted_since_publish_rollouts=started - self._lost - self._started_at_publish,
            outstanding_at_publish_rollouts=self._outstanding_at_publish,
            taken_batches=self.taken_batches,
            engine_version_batches=engine_version,
            trainer_version_batches=trainer_version,
            batch_rollouts=self.batch_rollouts,
        )

    def _judge(self, group_id: int, now_s: float) -> tuple[Verdict, Group | None]:
        members, failed = self.waiting.get(group_id, []), self.failed.get(group_id, 0)
        verdict: Verdict = "ship"
        if len(members) < self.group_size:
            of = Members(group_size=self.group_size, valid=len(members), failed=failed)
            verdict = self.incomplete(of)
        if verdict == "ship":
            return verdict, self._queue(group_id, members, now_s)
        if verdict == "drop":
            self._forget(group_id)
            for made in members:
                self._drop(made, "waiting", "incomplete_group")
        return verdict, None

    def _queue(self, group_id: int, members: list[Made], now_s: float) -> Group:
        members = sorted(members, key=lambda made: made.asked.member)
        for made in members:
            self.ledger.move("waiting", "queued", 1, made.tokens)
        whole = tuple(members[place % len(members)] for place in range(self.group_size))
        group = Group(group_id=group_id, members=whole, ready_s=now_s)
        self._forget(group_id)
        self.queue.append(group)
        self.copies_queued += group.copies
        while self.queue and self.rule.overflow(len(self.queue) * self.group_size):
            self._drop_group(self.queue.pop(0), "overflow")
        return group

    def _forget(self, group_id: int) -> None:
        """It is complete or thrown away; members that still run belong to nothing."""
        self.waiting.pop(group_id, None)
        self.failed.pop(group_id, None)
        self.started_with.pop(group_id, None)
        if any(asked.group_id == group_id for asked in self.running.values()):
            self.dead.add(group_id)

    def _drop_group(self, group: Group, reason: str) -> None:
        self.copies_queued -= group.copies
        for made in group.distinct:
            self._drop(made, "queued", reason)

    def _drop(self, made: Made, state: str, reason: str) -> None:
        self.ledger.drop(state, reason, 1, made.tokens)
        self.on_drop(made, reason)

    def _outstanding(self) -> int:
        held = self.ledger.rollouts
        return held["in_flight"] + held["waiting"] + held["queued"] + self.copies_queued
