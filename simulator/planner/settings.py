"""What does a system call these settings, and which rule does it then follow?

A bound of k batches is stated in each system's own count, so that data up to k batches old may be trained (or
generation may run k batches ahead, where the system bounds that); see `rules.systems` for each off-by-one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from simulator.rules.systems.shape import Shape
from simulator.systems import aged, gated
from simulator.systems.base import System

Knob: TypeAlias = Callable[[int, Shape], System]
"""Bound in batches, sizes -> the system's record."""


def areal(bound_batches: int, shape: Shape) -> System:
    """The one gate that also limits how many are in flight."""
    return gated.Areal(max_head_offpolicyness=bound_batches, max_concurrent_rollouts=shape.slots)


def skyrl(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001 - a knob takes both
    return gated.SkyRL(max_staleness_steps=bound_batches)


def roll(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.Roll(async_generation_ratio=float(bound_batches))


def tinker(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.Tinker(max_steps_off_policy=bound_batches)


def open_instruct(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.OpenInstruct(async_steps=bound_batches + 1)


def pipelinerl(bound_batches: int, shape: Shape) -> System:
    return gated.PipelineRL(max_lag_samples=bound_batches * shape.batch_rollouts)


def verl_fully_async(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.VerlFullyAsync(staleness_threshold=float(bound_batches))


def verl_v1_drop(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.VerlV1Drop(max_age_steps=bound_batches + 1)


def verl_v1_wait(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.VerlV1Wait(max_age_steps=bound_batches + 1)


def nemo_windowed(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.NemoWindowed(max_trajectory_age_steps=bound_batches)


def nemo_ready_first(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.NemoReadyFirst(window_steps=bound_batches + 1)


def nemo_in_order(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return gated.NemoInOrder(window_steps=bound_batches + 1)


def prime_rl(bound_batches: int, shape: Shape) -> System:
    return aged.PrimeRL(max_off_policy_steps=(bound_batches + 1) * shape.updates_per_batch - 1)


def miles(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return aged.Miles(max_weight_staleness=bound_batches)


def trl(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return aged.TRL(max_staleness=bound_batches)


def glm5(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return aged.GLM5(max_age_pushes=bound_batches)


def sao(bound_batches: int, shape: Shape) -> System:
    return aged.SAO(max_lag_updates=(bound_batches + 1) * shape.updates_per_batch - 1)


def torchforge(bound_batches: int, shape: Shape) -> System:  # noqa: ARG001
    return aged.Torchforge(max_policy_age=bound_batches)


KNOBS: Final[Mapping[str, Knob]] = {
    knob.__name__: knob
    for knob in (
        areal,
        skyrl,
        roll,
        tinker,
        open_instruct,
        pipelinerl,
        verl_fully_async,
        verl_v1_drop,
        verl_v1_wait,
        nemo_windowed,
        nemo_ready_first,
        nemo_in_order,
        prime_rl,
        miles,
        trl,
        glm5,
        sao,
        torchforge,
    )
}
NO_KNOB: Final[Mapping[str, str]] = {
    "verl_one_step_off": "its lag is one batch, always",
    "openrlhf": "its lag follows from a queue of one batch",
    "kimi_partial": "its rounds end by the share that is done",
    "slime": "what a sync aborts begins again, so that lag follows from the lengths",
    "minimax_wfifo": "it bounds a window of submissions, not an age",
    "laminar": "an engine takes weights when it has run empty, so that lag follows from the lengths",
}


def knob(name: str) -> Knob:
    """The function of a system, by its name.

    Raises:
        ValueError: an unknown system, or one that has no bound to set.
    """
    plain = name.replace("-", "_")
    if plain in NO_KNOB:
        raise ValueError(f"{name} has no staleness bound to plan: {NO_KNOB[plain]}")
    if plain not in KNOBS:
        raise ValueError(f"no system {name!r}; those with a bound are {', '.join(KNOBS)}")
    return KNOBS[plain]


def in_words(system: System) -> dict[str, Any]:
    """The settings by the system's own names."""
    return {field: value for field, value in system.model_dump().items() if field != "kind"}
