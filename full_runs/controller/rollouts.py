"""How are so many rollouts kept in flight, and what happens to one whose engine or environment fails?"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from typing import final

from full_runs.configs.record import FullConfig
from full_runs.controller.buffer import Buffer
from full_runs.controller.engines import Engine, Engines
from full_runs.controller.journal import Journal, rollout_row
from full_runs.controller.records import Asked, Group, Made
from full_runs.controller.resume import Past, places_to_ask
from full_runs.engine.client import EngineError
from full_runs.engine.sampling import Sampling
from full_runs.tasks.environment import World
from full_runs.tasks.play import EnvironmentFailedError, patient, play


@final
class Rollouts:
    """Asks for rollouts as long as the rule lets them in and engines have room.

    Args:
        config: of the run.
        world: what is played.
        engines: that make tokens.
        buffer: that takes what is finished.
        journal: that is told.
        trainer_version: updates done.
        changed: called when a batch might be there.
        past: what earlier processes of this run leave.
    """

    def __init__(
        self,
        config: FullConfig,
        world: World,
        engines: Engines,
        buffer: Buffer,
        journal: Journal,
        *,
        trainer_version: Callable[[], int],
        changed: Callable[[], None],
        past: Past,
    ) -> None:
        self.config = config
        self.world = world
        self.engines = engines
        self.buffer = buffer
        self.journal = journal
        self.trainer_version = trainer_version
        self.changed = changed
        self._sampling = Sampling(temperature=config.temperature)
        self._within = patient(config.environment_timeout_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: deque[tuple[Asked, int]] = deque()
        """Rollouts whose engine failed, and how often they were tried; they were let in already."""
        self._places = places_to_ask(
            past, group_size=config.group_size, distinct_prompts=config.distinct_prompts
        )
        self._ids = past.rollouts
        """They and places part where a member is retried."""
        self._idle_since_s: defaultdict[tuple[int, int], float] = defaultdict(lambda: past.clock_s)
        self.crashed: BaseException | None = None
        """An error of our own; the run ends with it."""

    def fill(self) -> None:
        """Start what may start now."""
        let_in: list[Asked] = []
        while (engine := self.engines.choose()) is not None:
            if self._again:
                asked, attempts = self._again.popleft()
            elif self._may_start():
                asked, attempts = self._ask(), 0
                let_in.append(asked)
            else:
                break
            slot = engine.free_slot()
            engine.busy.add(slot)
            task = asyncio.create_task(self._run(asked, attempts, engine, slot))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, engine, slot))
        # Written before any of them runs: that begins when this function has returned.
        self._say_in_flight(let_in)

    async def close(self) -> None:
        """Stop what is under way, and say so."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._say_in_flight(self.buffer.running.values())

    def _may_start(self) -> bool:
        # The rule bounds what is let in; a slot is free, or no engine would have been chosen.
        counts = self.buffer.counts(
            engine_version=self.engines.version, trainer_version=self.trainer_version()
        )
        return self.buffer.rule.admission(counts) > 0

    def _ask(self) -> Asked:
        place = next(self._places)
        asked = Asked(rollout_id=self._new_id(), submitted_s=self.journal.clock(), **place._asdict())
        self.buffer.start(asked, self.engines.version)
        return asked

    async def _run(self, asked: Asked, attempts: int, engine: Engine, slot: int) -> None:
        started_s, client = self.journal.clock(), engine.client
        resource = f"engine-{engine.place}/slot-{slot}"
        idle_s = self._idle_since_s[engine.place, slot]
        self.journal.interval(resource, "idle", "gate_closed", idle_s, started_s)
        generate = partial(client.generate, sampling=self._sampling)
        try:
            played = await play(
                self.world.episode(asked.prompt_id),
                generate,
                prompt_id=asked.prompt_id,
                group_id=asked.group_id,
                temperature=self.config.temperature,
                clock=self.journal.clock,
                within=self._within,
            )
        except EnvironmentFailedError as error:
            self._environment_failed(asked, str(error))
        except (EngineError, ValueError) as error:
            # Asked in any case: one whose core died may answer for a while, with errors, and a connection
            # may break where nothing else has.
            if not await client.is_healthy() and client is engine.client:
                self.engines.lost(engine, str(error))
            self._engine_failed(asked, attempts + 1, error)
        else:
            finished_s = self.journal.clock()
            made = Made(
                asked=asked, played=played, engine=engine.place, started_s=started_s, finished_s=finished_s
            )
            self._finished(made)
        finally:
            end_s = self.journal.clock()
            self.journal.interval(resource, "busy", "decode", started_s, end_s)
            self._idle_since_s[engine.place, slot] = end_s

    def _finished(self, made: Made) -> None:
        rollout_id = made.asked.rollout_id
        pieces = [{"rollout_id": rollout_id, **asdict(piece)} for piece in made.played.pieces]
        self.journal.write_all("segment", pieces)
        self.journal.write("rollout", **rollout_row(made.asked, made, status="waiting"))
        self._queued(self.buffer.finish(made))

    def _queued(self, group: Group | None) -> None:
        if group is not None:
            rows = [
                rollout_row(made.asked, made, status="queued", group_ready_s=group.ready_s)
                for made in group.distinct
            ]
            self.journal.write_all("rollout", rows)
            self.changed()

    def _environment_failed(self, asked: Asked, why: str) -> None:
        self.journal.write("failure", what="environment", rollout_id=asked.rollout_id, why=why)
        self._lost(asked, "environment_failed")

    def _engine_failed(self, asked: Asked, attempts: int, error: Exception) -> None:
        self.journal.write("failure", what="engine", rollout_id=asked.rollout_id, why=str(error)[:300])
        if attempts < self.config.engine_attempts:
            self._again.append((asked, attempts))
        else:
            self._lost(asked, "engine_failed")

    def _lost(self, asked: Asked, reason: str) -> None:
        now_s = self.journal.clock()
        row = rollout_row(
            asked, None, status="dropped", reason=reason, consumed_s=now_s,
            consumed_version=self.trainer_version(),
        )  # fmt: skip
        self.journal.write("rollout", **row)
        verdict, group = self.buffer.fail(asked, reason, now_s)
        self._queued(group)
        if verdict == "retry":
            self.buffer.retried(asked.group_id)
            again = replace(asked, rollout_id=self._new_id(), submitted_s=now_s)
            self.buffer.start(again, self.engines.version)
            self._say_in_flight([again])
            self._again.append((again, 0))

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids - 1

    def _say_in_flight(self, asked: Iterable[Asked]) -> None:
        rows = [rollout_row(each, None, status="in_flight") for each in asked]
        self.journal.write_all("rollout", rows)

    def _ended(self, engine: Engine, slot: int, task: asyncio.Task[None]) -> None:
        engine.busy.discard(slot)
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.crashed = task.exception()
        self.changed()
