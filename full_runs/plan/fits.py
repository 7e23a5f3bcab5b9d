"""Does a configuration fit into its GPUs? With numbers, whichever way it falls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from full_runs.configs.record import FullConfig
from full_runs.plan.architecture import Architecture
from full_runs.plan.engine_memory import Share, capacity_tokens, engine_bytes
from full_runs.plan.times import BYTES, lengths, tokens_per_update
from full_runs.plan.trainer_memory import PASSING, SPARE, Load, trainer_bytes
from simulator.lab.methods import METHODS, Method
from simulator.planner.accelerators import ACCELERATORS
from simulator.planner.layout import held_tokens

LEAST_PARAMETERS: Final = 10**6
"""Of what the planner takes for a language model."""
_AN_ATTENTION_WEIGHT: Final = "layers.0.self_attn.q_proj.weight"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of one GPU."""

    bytes_of: Mapping[str, float]
    usable_bytes: float

    @property
    def total_bytes(self) -> float:
        return sum(self.bytes_of.values())

    @property
    def fits(self) -> bool:
        return self.total_bytes <= self.usable_bytes


def method_of(config: FullConfig) -> Method:
    """What its estimator name stands for."""
    return METHODS[config.estimator]()


def load_of(config: FullConfig, *, checkpointed: bool) -> Load:
    """What its trainer holds."""
    method = method_of(config)
    critic = method.estimator.critic
    tokens = config.tokens_at_once or round(tokens_per_update(config) / config.ranks)
    return Load(
        ranks=config.ranks,
        precision_bytes=BYTES[config.precision],
        micro_batch_tokens=max(config.longest_tokens, tokens),
        checkpointed=checkpointed,
        critic=critic is not None,
        attention_frozen=critic is not None and critic.frozen(_AN_ATTENTION_WEIGHT),
        reference=method.needs_reference,
    )


def trainer_memory(config: FullConfig, model: Architecture, *, checkpointed: bool) -> Memory:
    """Of one of its GPUs; an engine beside it keeps its share."""
    beside = config.engine_memory if config.shares_a_gpu else 0.0
    return Memory(
        bytes_of=trainer_bytes(model, load_of(config, checkpointed=checkpointed)),
        usable_bytes=max(0.0, 1 - SPARE - beside) * ACCELERATORS[config.accelerator].memory_bytes,
    )


def share_of(config: FullConfig) -> Share:
    """What one of its engines is asked to hold."""
    return Share(
        tensor_parallel=config.tensor_parallel,
        precision_bytes=BYTES[config.precision],
        requests=config.in_flight // config.engines,
        held_tokens=held_tokens(lengths(config), config.max_prompt_tokens),
    )


def engine_memory(config: FullConfig, model: Architecture) -> Memory:
    """Of one GPU of an engine, and what vLLM is allowed of it."""
    return Memory(
        bytes_of=engine_bytes(model, share_of(config)),
        usable_bytes=config.engine_memory * ACCELERATORS[config.accelerator].memory_bytes,
    )


def refusals(config: FullConfig, model: Architecture) -> list[str]:
    """What cannot fit, each with its numbers; none if everything does."""
    gpu = ACCELERATORS[config.accelerator].memory_bytes
    said = []
    if model.total < LEAST_PARAMETERS:
        said.append(f"model has {model.total:,} parameters, and plans begin at {LEAST_PARAMETERS:,}")
    if model.heads % config.tensor_parallel:
        said.append(
            f"tensor_parallel ({config.tensor_parallel}) does not divide the {model.heads} attention heads"
        )
    trainer = trainer_memory(config, model, checkpointed=config.checkpointed)
    if not trainer.fits:
        said.append(
            f"a GPU of the trainer needs {_gb(trainer.total_bytes)} (weights, gradients and moments"
            f" {_gb(_lasting(trainer))} on each of {config.ranks} ranks, the rest for micro-batches of"
            f" {load_of(config, checkpointed=config.checkpointed).micro_batch_tokens:,} tokens), and"
            f" {_gb(trainer.usable_bytes)} of {config.accelerator}'s {_gb(gpu)} are usable"
        )
    return said + _engine_refusals(config, model)


def _engine_refusals(config: FullConfig, model: Architecture) -> list[str]:
    share, engine = share_of(config), engine_memory(config, model)
    capacity = capacity_tokens(model, share, engine.usable_bytes)
    held = share.requests * share.held_tokens
    if capacity < 1:
        return [
            f"weights of {_gb(engine.bytes_of['weights'])} leave no room for keys and values in the"
            f" {_gb(engine.usable_bytes)} that engine_memory ({config.engine_memory}) gives each of an"
            f" engine's {config.tensor_parallel} GPUs"
        ]
    if capacity < config.longest_tokens:
        return [f"a rollout of {config.longest_tokens:,} tokens does not fit into an engine's {capacity:,}"]
    if capacity < held:
        return [
            f"{share.requests:,} rollouts an engine would hold {held:,.0f} tokens where {capacity:,} fit"
            f" (keys and values of {_gb(engine.bytes_of['keys and values of the wanted rollouts'])} a GPU):"
            " it would preempt; ask for fewer in_flight or more engines"
        ]
    return []


def _lasting(memory: Memory) -> float:
    return sum(size for name, size in memory.bytes_of.items() if name not in PASSING)


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
