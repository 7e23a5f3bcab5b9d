"""The door where rollouts need an environment before they need a slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import simpy

from simulator.config import PipelineConfig, length_law
from simulator.ledger import Ledger
from simulator.pipeline.admission import Door
from simulator.pipeline.admission_queue import Returning
from simulator.pipeline.engine import Engine
from simulator.pipeline.environments import Environments
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.workload import Workload
from simulator.world.episodes import DrawnEpisodes, Episode, MultiTurn


@final
class EnvironmentDoor(Door):
    """Admits rollouts as the rule and the number of environments allow; what is ready gets slots.

    In order of becoming ready.
    """

    explains = True
    environments: Environments

    def enter(self, engine: Engine, slot: int, now_s: float) -> bool:  # noqa: ARG002 - whoever is ready comes later
        return False

    def come_back(self, one: Returning) -> None:
        """A new attempt needs a new environment: it is let in before others, when one is free."""
        if one.rollout_id is None:
            self.ask_again(one.place, one.tokens)
        else:
            super().come_back(one)

    def skip(self, group: int) -> list[tuple[int, int]]:
        size = self.table.group_size
        skipped = []
        while self.next_place // size == group and self.next_place % size:
            skipped.append((self.next_place, 0))  # its episode says how long it is
            self.next_place += 1
        return skipped

    def start(self, engine: Engine, slot: int, place: int, tokens: int, now_s: float) -> None:
        """A validation rollout, which needs no environment."""
        rollout_id = len(self.table)
        self.environments.enrol(place, Episode((tokens,)), "validation", now_s)
        self.environments.begin(engine, rollout_id, slot, now_s)

    def _has_work(self) -> bool:
        wanted = self.returning or self._wants_slot()
        return self.environments.free > 0 or (self.free_slots > 0 and bool(wanted))

    def _fill(self, now_s: float) -> None:
        environments = self.environments
        touched: dict[int, Engine] = {}
        full = bool(self.returning) and not self._take_back(now_s, touched)
        self.allowance = self.admission(self.counts())
        while self.allowance > 0 and environments.free > 0:
            self.allowance -= 1
            if self.again:
                place, _ = self.again.popleft()
            else:
                place = self.next_place
                self.next_place += 1
            environments.admit(place, now_s, self.on_start)
        self._give_slots(now_s, touched, full=full)

    def _made(self, one: Returning) -> int:
        assert one.rollout_id is not None
        return super()._made(one) + self.table.observed_tokens[one.rollout_id]

    def _wants_slot(self) -> bool:
        return bool(self.environments.ready or self.requests)

    def _start(self, engine: Engine, slot: int, now_s: float) -> None:
        if self._validation_is_next(others=bool(self.environments.ready)):
            self.start(engine, slot, *self.requests.popleft(), now_s)
        else:
            self.environments.begin(engine, self.environments.ready.popleft(), slot, now_s)

    def _why_nobody_comes(self) -> str:
        return "gate_closed" if self.environments.free else "environment"


def environments_of(
    env: simpy.Environment,
    config: PipelineConfig,
    workload: Workload,
    table: Rollouts,
    ledger: Ledger,
    engines: Sequence[Engine],
    complete: Callable[[int], None],
) -> Environments | None:
    """Those that a configuration asks for, or that a workload's own `episode` needs, if any."""
    own: Callable[[int, int], Episode] | None = getattr(workload, "episode", None)
    if own is None and not config.has_environments:
        return None
    drawn = DrawnEpisodes(
        config.episode,
        first_turn_tokens=workload.length_tokens,
        lengths=length_law(config.lengths),
        start_s=config.environment_start_s,
        reward_s=config.reward_s,
        seed=config.seed,
        group_size=config.group_size,
    )
    law = config.episode if isinstance(config.episode, MultiTurn) else MultiTurn()
    return Environments(
        env,
        table=table,
        ledger=ledger,
        engines=engines,
        number=config.environments or config.slots,
        episode=own or drawn.episode,
        keeps_slots=law.slot_between_turns == "kept",
        keeps_keys=law.keys_between_turns == "kept",
        prompt_tokens=config.prompt_tokens,
        complete=complete,
    )
