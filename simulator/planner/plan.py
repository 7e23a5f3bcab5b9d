"""How do throughput, lag and idleness trade over the settings, and which setting is enough?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

import joblib

from simulator.pipeline.pipeline import run
from simulator.planner.config import PlanConfig
from simulator.planner.frontier import frontier, knee
from simulator.planner.layout import Layout, Setting, divisor, grid, layout
from simulator.planner.measure import Measured, Numbers, estimates, measure, scaled
from simulator.planner.regime import Regime, regime

SYNCHRONOUS_BATCHES: Final = 8
"""Of a synchronous setting: they are independent, and never cut into parts."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A setting and what it comes to."""

    setting: Setting
    numbers: Numbers
    system: dict[str, object]
    slots_an_engine: int
    trainer_gpus: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer."""

    config: PlanConfig
    outcomes: tuple[Outcome, ...]
    impossible: tuple[tuple[Setting, str], ...]
    """Settings that cannot be, and why."""
    frontier: tuple[int, ...]
    """Of `outcomes`, the freshest first."""
    knee: int
    regime: Regime
    parts: int
    whole: Numbers | None
    """Of the knee, once on the whole machine; None where all settings were simulated whole."""

    @property
    def best(self) -> Outcome:
        return self.outcomes[self.knee]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One simulation."""

    config: PlanConfig
    setting: Setting
    seed: int
    parts: int

    def layout(self) -> Layout:
        return layout(self.config, self.setting, seed=self.seed, parts=self.parts)


def plan(config: PlanConfig, *, jobs: int = 1, advance: Callable[[], None] = lambda: None) -> Plan:
    """Simulate every setting with every seed, and judge.

    Args:
        jobs: processes at once.
        advance: called after each simulation; there are `simulations(config)`.

    Errors:
        ValueError: no setting is possible.
    """
    settings, impossible = possible(config, grid(config))
    numbers = simulate(config, settings, jobs=jobs, advance=advance)
    outcomes = [_outcome(config, setting, found) for setting, found in zip(settings, numbers, strict=True)]
    throughput = [o.numbers["rollouts_per_hour"].mean for o in outcomes]
    along = frontier(throughput, [o.numbers["mean_lag_updates"].mean for o in outcomes])
    best = outcomes[chosen := knee(throughput, along)]
    parts = parts_of(config, best.setting)
    whole = None
    if parts > 1:
        whole = estimates([_simulated(Job(config=config, setting=best.setting, seed=config.seed, parts=1))])
    if divisor(config) > 1:
        advance()
    return Plan(
        config=config,
        outcomes=tuple(outcomes),
        impossible=tuple(impossible),
        frontier=tuple(along),
        knee=chosen,
        regime=regime_of(best),
        parts=divisor(config),
        whole=whole,
    )


def simulations(config: PlanConfig) -> int:
    """How many a plan takes, the last on the whole machine among them."""
    return len(possible(config, grid(config))[0]) * config.seeds + (divisor(config) > 1)


def possible(
    config: PlanConfig, settings: Sequence[Setting]
) -> tuple[list[Setting], list[tuple[Setting, str]]]:
    """Settings that can be, and those that cannot, with the reason.

    Errors:
        ValueError: none can.
    """
    can: list[Setting] = []
    cannot: list[tuple[Setting, str]] = []
    for setting in settings:
        try:
            layout(config, setting, seed=config.seed, parts=parts_of(config, setting))
        except ValueError as why:
            cannot.append((setting, " ".join(str(why).split())))
        else:
            can.append(setting)
    if not can:
        raise ValueError(f"no setting is possible: {cannot[0][1]}")
    return can, cannot


def parts_of(config: PlanConfig, setting: Setting) -> int:
    return 1 if setting.together else divisor(config)


def simulate(
    config: PlanConfig, settings: Sequence[Setting], *, jobs: int, advance: Callable[[], None]
) -> list[Numbers]:
    """The numbers of each setting, over all seeds."""
    work = [
        Job(config=config, setting=setting, seed=config.seed + i, parts=parts_of(config, setting))
        for setting in settings
        for i in range(config.seeds)
    ]
    found: list[Measured] = []
    for measured in _parallel(work, jobs):
        found.append(measured)
        advance()
    n = config.seeds
    return [estimates(found[i * n : (i + 1) * n]) for i in range(len(settings))]


def regime_of(outcome: Outcome) -> Regime:
    means = {name: found.mean for name, found in outcome.numbers.items()}
    return regime(
        synchronous=outcome.setting.together,
        trainer_idle=means["trainer_idle"],
        slots_idle=means["slots_idle"],
        dropped=means["dropped"],
    )


def _outcome(config: PlanConfig, setting: Setting, numbers: Numbers) -> Outcome:
    made = layout(config, setting, seed=config.seed)
    return Outcome(
        setting=setting,
        numbers=numbers,
        system=made.system,
        slots_an_engine=made.pipeline.slots // made.pipeline.engines,
        trainer_gpus=config.machines - (0 if setting.together else setting.rollout_gpus),
    )


def _parallel(work: Sequence[Job], jobs: int) -> Iterable[Measured]:
    if jobs == 1:
        return map(_simulated, work)
    found: Iterable[Measured] = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(_simulated)(job) for job in work
    )
    return found


def _simulated(job: Job) -> Measured:
    made = job.layout()
    pipeline = made.pipeline
    together = job.setting.together
    if together:
        batches = min(SYNCHRONOUS_BATCHES, pipeline.updates // pipeline.updates_per_batch)
        pipeline = pipeline.model_copy(update={"updates": batches * pipeline.updates_per_batch})
    done = run(pipeline, rule=made.rule)
    return scaled(measure(done, colocated=together), job.parts)
