"""From a configuration to its plan, or to one line that says what cannot fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from full_runs.configs.record import FullConfig
from full_runs.plan.architecture import Architecture, architecture
from full_runs.plan.engine_memory import capacity_tokens
from full_runs.plan.expected import SEEDS, Expected, expected
from full_runs.plan.fits import Memory, engine_memory, refusals, share_of, trainer_memory
from simulator.command_line import bad_input
from simulator.progress import progress


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Of a run on GPUs."""

    config: FullConfig
    model: Architecture
    trainer: Memory
    """As configured."""
    trainer_otherwise: Memory
    """With checkpointing where it is off, without where it is on."""
    engine: Memory
    capacity_tokens: int
    """Keys and values that an engine has room for."""
    held_tokens: float
    """Of a rollout that decodes, on average."""
    expected: Expected


def plan(config: FullConfig, *, silent: bool = True) -> Plan:
    """Check and simulate; nothing is started or downloaded.

    Raises:
        BadInputError: an unknown model, or something that cannot fit, with its numbers.
    """
    with bad_input("full: "):
        assert config.model is not None  # the configuration is checked: it has GPUs
        model = architecture(config.model)
        if why := refusals(config, model):
            raise ValueError(f"this cannot fit: {'; '.join(why)}")
        share, engine = share_of(config), engine_memory(config, model)
        with progress(SEEDS, "simulations", silent=silent) as advance:
            found = expected(config, model, advance=advance)
        return Plan(
            config=config,
            model=model,
            trainer=trainer_memory(config, model, checkpointed=config.checkpointed),
            trainer_otherwise=trainer_memory(config, model, checkpointed=not config.checkpointed),
            engine=engine,
            capacity_tokens=capacity_tokens(model, share, engine.usable_bytes),
            held_tokens=share.held_tokens,
            expected=found,
        )
