"""What goes wrong in one run: the parts that `Faults` calls for, connected to the pipeline, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import simpy

from simulator.config import PipelineConfig
from simulator.ledger import Ledger
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.discards import Discards
from simulator.pipeline.engine import Engine
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.loaded import LoadedEngine
from simulator.pipeline.losses import Losses
from simulator.pipeline.outages import Background, Outages
from simulator.pipeline.push import Push
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.watchdog import Watchdog
from simulator.rules.incomplete import Incomplete, drop_group, pad_if_most_are_valid, retry_member
from simulator.world.decoding import FixedSpeed, LoadDependent
from simulator.world.failures import Faults

_RULES: Final[Mapping[str, Incomplete]] = {
    "drop": drop_group,
    "retry": retry_member,
    "pad": pad_if_most_are_valid,
}


@final
class Failing:
    """Crashes, stragglers, failing environments and pushes, deadlines, and a watchdog over simulated time."""

    def __init__(
        self,
        env: simpy.Environment,
        config: PipelineConfig,
        faults: Faults,
        *,
        table: Rollouts,
        ledger: Ledger,
        discards: Discards,
        door: Door,
        buffer: Buffer,
        fleet: Fleet,
        push: Push,
        watchdog: Watchdog,
        incomplete: Incomplete | None = None,
    ) -> None:
        self.env = env
        self.config = config
        self.faults = faults
        self.fleet = fleet
        self.push = push
        self.watchdog = watchdog
        watchdog.failures = self.counts
        self.background = Background(env, watchdog.stuck)
        self.outages = Outages(
            env,
            fleet=fleet,
            door=door,
            discards=discards,
            resumes=config.failures.after_crash == "resume",
            emptied=self._emptied,
            background=self.background,
        )
        self.losses: Losses | None = None
        if faults.fails_after is not None or config.failures.group_deadline_s is not None:
            self.losses = Losses(
                env,
                table=table,
                ledger=ledger,
                discards=discards,
                door=door,
                buffer=buffer,
                fails_after=faults.fails_after,
                incomplete=incomplete or _RULES[config.failures.incomplete_group],
                deadline_s=config.failures.group_deadline_s,
                give_up=watchdog.give_up,
            )
            door.on_start, discards.given_up = self.losses.started, self.losses.given_up

    def start(self) -> None:
        """Everything begins with the run."""
        faults, process = self.faults, self.env.process
        for engine in self.fleet.engines:
            if faults.outages is not None:
                process(self.outages.crashing(engine, faults.outages(engine.index)))
            spells = None if faults.slow_spells is None else faults.slow_spells(engine.index)
            if spells is not None:
                assert isinstance(engine, LoadedEngine)  # see `speed`
                process(self.outages.slowing(engine, spells, self.config.failures.slow_factor))
        if self.config.stall_limit_s is not None:
            process(self.watchdog.watch(self.config.stall_limit_s, self.background))

    def counts(self) -> dict[str, int]:
        """How often did what happen? Kinds that did not are left out."""
        counts = dict(self.losses.counts) if self.losses is not None else {}
        counts |= {"engine_crashes": self.outages.crashes, "push_failures": self.push.failures}
        return {kind: times for kind, times in counts.items() if times}

    def _emptied(self, engine: Engine) -> None:
        if engine.wants_weights and engine.empty:
            self.push.emptied(engine)
        self.fleet.tell_who_waits()


def speed(config: PipelineConfig, faults: Faults, engine: int) -> FixedSpeed | LoadDependent:
    """How fast does this engine decode at the start?

    An engine whose speed will change is load-dependent, with a load that costs nothing if `config` says so.
    """
    model = config.engine
    if faults.slow_spells is not None and isinstance(model, FixedSpeed):
        return LoadDependent(
            step_fixed_s=model.seconds_per_token, step_s_per_rollout=0.0, step_s_per_kv_token=0.0
        )
    factor = 1.0 if faults.slow_from_the_start is None else faults.slow_from_the_start(engine)
    if factor == 1:
        return model
    changes: dict[str, float] = {
        name: factor * getattr(model, name) for name in type(model).model_fields if name in _TIMES
    }
    return model.model_copy(update=changes)


_TIMES: Final = (
    "seconds_per_token",
    "step_fixed_s",
    "step_s_per_rollout",
    "step_s_per_kv_token",
    "prefill_s_per_token",
)
