"""Validation runs that share the engines: asked for at a version, never trained on, and counted apart.

What a validation measures is the policy that sampled it. Engines may get new weights while it runs, so a
result belongs to the version at which it was asked for, and says which versions sampled it: in the log,
`consumed_version` is the former and `first_version` to `last_version` are the latter.

References:
    Results attached to a policy that had moved on: https://github.com/PrimeIntellect-ai/prime-rl/pull/3385.
"""

from __future__ import annotations

from typing import final

import simpy

from simulator.ledger import Ledger, LedgerError
from simulator.pipeline.admission import Door
from simulator.pipeline.engine import Process
from simulator.pipeline.journal import Journal
from simulator.pipeline.rollout import Rollouts
from simulator.streams import stream
from simulator.world.lengths import LengthLaw


@final
class Validation:
    """Asks for `rollouts` answers after every `every_updates` updates.

    Every request has a place of its own in the table, -1, -2, ..., and is a group by itself.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        table: Rollouts,
        journal: Journal,
        door: Door,
        every_updates: int,
        rollouts: int,
        blocks: bool,
        lengths: LengthLaw,
        seed: int,
    ) -> None:
        self.env = env
        self.table = table
        self.journal = journal
        self.door = door
        self.every_updates = every_updates
        self.rollouts = rollouts
        self.blocks = blocks
        self.lengths = lengths
        self.seed = seed
        self.asked_at: list[int] = []
        """Version of each validation."""
        self.missing: list[int] = []
        """Rollouts of each that have not ended."""
        self._noted: set[int] = set()
        self._all_ended = simpy.Event(env)

    def run(self, version: int) -> Process:
        """Ask, if it is time to; and wait for the answers, if the trainer does."""
        if version % self.every_updates:
            return
        since_s, index = self.env.now, len(self.asked_at)
        uniform = stream(self.seed, "validation", index).random(self.rollouts)
        first = -1 - index * self.rollouts
        self.asked_at.append(version)
        self.missing.append(self.rollouts)
        self.door.requests.extend(
            (first - i, tokens) for i, tokens in enumerate(self.lengths.quantile(uniform).tolist())
        )
        self.door.knock()
        while self.blocks and self.missing[index]:
            self._all_ended = simpy.Event(self.env)
            yield self._all_ended
        self.journal.trainer("idle", "validation", since_s, self.env.now)

    def ended(self, rollout_id: int) -> None:
        """An answer is there."""
        index = self._index(rollout_id)
        self.missing[index] -= 1
        self._note(rollout_id, None)
        if not self.missing[index] and self.blocks:
            self._all_ended.succeed()

    def restarted(self, rollout_id: int, reason: str) -> None:
        """An attempt was thrown away; the request stands."""
        self._note(rollout_id, reason)

    def close(self, ledger: Ledger) -> None:
        """The run ends: note what has not, and compare all with the ledger."""
        table = self.table
        ids = [i for i, place in enumerate(table.place) if place < 0]
        for rollout_id in ids:
            if rollout_id not in self._noted:
                self._note(rollout_id, None)
        found = (len(ids), sum(map(table.tokens.__getitem__, ids)))
        if found != (ledger.rollouts["validation"], ledger.tokens["validation"]):
            raise LedgerError(f"{found} rollouts and tokens are for validation, but the ledger says {ledger}")

    def _note(self, rollout_id: int, reason: str | None) -> None:
        self._noted.add(rollout_id)
        self.journal.fate(
            [rollout_id],
            "validation",
            reason=reason,
            consumed_version=self.asked_at[self._index(rollout_id)],
            complete=False,
        )

    def _index(self, rollout_id: int) -> int:
        return (-1 - self.table.place[rollout_id]) // self.rollouts
