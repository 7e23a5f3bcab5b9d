"""What pipeline does a setting describe?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from simulator.config import PipelineConfig, length_law
from simulator.planner import roofline, settings
from simulator.planner.config import PlanConfig
from simulator.rules import eviction, on_sync, staleness
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import LengthLaw, mean_tokens

NODE_GPUS: Final = 8
LEAST_BATCH_ROLLOUTS: Final = 128
LEAST_ENGINES: Final = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the grid."""

    rollout_gpus: int
    """GPUs that decode; the others train. All of them if they take turns."""
    in_flight: int
    """Rollouts that decode at once."""
    bound_batches: int | None
    """In the system's count; None where nothing bounds the run-ahead, but a queue of one batch that drops
    its oldest."""
    together: bool = False
    """Synchronous: all GPUs decode a batch, then all train on it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A setting on the machine, or on an equal part of it."""

    pipeline: PipelineConfig
    rule: Staleness
    system: dict[str, object]
    """Settings in the system's words, of the whole machine."""


def grid(config: PlanConfig) -> list[Setting]:
    """Every setting to try: the synchronous one first, then shares, numbers in flight and bounds."""
    unit = config.gpus_engine * divisor(config)
    splits = {max(unit, round(share * config.machines / unit) * unit) for share in config.rollout_shares}
    asynchronous = [
        Setting(rollout_gpus=gpus, in_flight=in_flight, bound_batches=bound)
        for gpus in sorted(splits)
        if gpus < config.machines
        for in_flight in sorted(set(config.in_flight))
        for bound in sorted(set(config.bounds_batches))
    ]
    return [synchronous(config), *asynchronous]


def free(config: PlanConfig) -> list[Setting]:
    """Every split with the largest number in flight, and no bound."""
    splits = {setting.rollout_gpus for setting in grid(config) if not setting.together}
    in_flight = max(config.in_flight)
    return [Setting(rollout_gpus=gpus, in_flight=in_flight, bound_batches=None) for gpus in sorted(splits)]


def synchronous(config: PlanConfig) -> Setting:
    """All GPUs generate a batch at once, then all train on it."""
    engines = config.machines // config.gpus_engine
    return Setting(
        rollout_gpus=engines * config.gpus_engine,
        in_flight=config.batch_rollouts,
        bound_batches=None,
        together=True,
    )


def divisor(config: PlanConfig) -> int:
    """Into how many equal parts is the machine cut, one of which is simulated? A power of two.

    Engines, batch, trainer and rollouts in flight shrink alike, so means of lag, idleness and throughput stay
    (*choice*: up to fluctuations that grow with the square root); waits for the slowest of a whole batch do
    not, and synchronous settings are never cut.
    """
    parts = 1
    while (
        max(config.in_flight) > config.replica_rollouts * parts
        and config.rollouts_per_update % (2 * parts * config.group_size) == 0
        and config.rollouts_per_update // (2 * parts) >= LEAST_BATCH_ROLLOUTS
        and config.machines // config.gpus_engine // (2 * parts) >= LEAST_ENGINES
    ):
        parts *= 2
    return parts


def layout(config: PlanConfig, setting: Setting, *, seed: int, parts: int = 1) -> Layout:
    """The pipeline, or one of `parts` equal ones.

    Errors:
        ValueError: it cannot be: memory of trainer or engines is too small for the model.
    """
    together = setting.together
    model, gpu, achieved = config.model, config.gpu, config.achieved
    trainer_gpus = config.machines - (0 if together else setting.rollout_gpus)
    needed = roofline.trainer_gpus_needed(model, gpu, achieved, copies=config.trainer_copies)
    if trainer_gpus < needed:
        raise ValueError(f"{trainer_gpus} GPUs for the trainer, whose state needs {needed}")
    engines = max(1, setting.rollout_gpus // config.gpus_engine // parts)
    slots_an_engine = max(1, -(-setting.in_flight // (engines * parts)))
    engine = roofline.decoding(model, gpu, achieved, gpus=config.gpus_engine, rollouts=slots_an_engine)
    s_per_token = roofline.trainer_s_per_token(
        model, gpu, achieved, gpus=trainer_gpus / parts, flops_a_parameter=1
    )
    law = length_law(config.lengths)
    _check_fits(law, config.prompt_tokens, engine, 1 if together else slots_an_engine)
    rollouts = config.rollouts_per_update // parts
    policy_s = config.policy_flops_a_parameter * s_per_token
    critic_tokens = rollouts * (config.prompt_tokens + mean_tokens(law))
    critic_s = roofline.FORWARD_BACKWARD * s_per_token * critic_tokens
    senders = min(trainer_gpus, max(NODE_GPUS, config.gpus_engine))
    push_s = roofline.push_s(model, gpu, achieved, senders=senders)
    if together:
        push_s += roofline.switch_s(model, achieved, gpus=trainer_gpus)
    pipeline = PipelineConfig(
        slots=engines * slots_an_engine,
        engines=engines,
        engine=engine,
        prompt_tokens=config.prompt_tokens,
        group_size=config.group_size,
        rollouts_per_update=rollouts,
        updates_per_batch=config.updates_per_batch,
        updates=-(-config.updates // config.updates_per_batch) * config.updates_per_batch,
        policy_update_s=policy_s * rollouts * config.prompt_tokens,
        policy_update_s_per_token=policy_s,
        critic_updates=config.critic_updates,
        critic_update_s=critic_s if config.critic_updates else 0.0,
        push_s=push_s,
        lengths=config.lengths,
        seed=seed,
    )
    rule, words = _rule(config, setting, pipeline, parts)
    return Layout(pipeline=pipeline, rule=rule, system=words)


def _check_fits(law: LengthLaw, prompt_tokens: int, engine: LoadDependent, rollouts: int) -> None:
    """Refuse what could not be decoded, or only by preempting rollouts again and again."""
    capacity = engine.kv_capacity_tokens
    if capacity is None:
        return
    longest = prompt_tokens + int(law.quantile(np.array([1 - 2.0**-53]))[0])
    if longest > capacity:
        raise ValueError(f"a rollout of {longest:,} tokens does not fit into an engine's {capacity:,}")
    held = rollouts * held_tokens(law, prompt_tokens)
    if rollouts > 1 and held > capacity:
        raise ValueError(
            f"{rollouts:,} rollouts would hold {held:,.0f} tokens in an engine for {capacity:,}: it preempts"
        )


def held_tokens(law: LengthLaw, prompt_tokens: int) -> float:
    r"""Of a rollout that decodes, on average: its prompt, and :math:`E[L^2] / 2 E[L]` made so far."""
    lengths = law.quantile((np.arange(20_000) + 0.5) / 20_000).astype(np.float64)
    return prompt_tokens + float(np.mean(lengths**2) / (2 * np.mean(lengths)))


def _rule(
    config: PlanConfig, setting: Setting, pipeline: PipelineConfig, parts: int
) -> tuple[Staleness, dict[str, object]]:
    if setting.together:
        taking_turns = on_sync.keep(pauses_engines=True)
        return dataclasses.replace(staleness.sync(), colocated=True, on_sync=taking_turns), {}
    if setting.bound_batches is None:
        one_batch = eviction.drop_oldest_beyond(pipeline.batch_rollouts)
        return dataclasses.replace(staleness.unbounded(), overflow=one_batch), {}
    knob = settings.knob(config.system)
    part, whole = (
        Shape(
            batch_rollouts=batch,
            group_size=config.group_size,
            updates_per_batch=config.updates_per_batch,
            slots=slots,
        )
        for batch, slots in (
            (pipeline.batch_rollouts, pipeline.slots),
            (config.batch_rollouts, pipeline.slots * parts),
        )
    )
    words = settings.in_words(knob(setting.bound_batches, whole))
    return knob(setting.bound_batches, part).rule(part), words
