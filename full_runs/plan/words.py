"""What does a plan say, as text and as JSON?"""

from __future__ import annotations

import json
from typing import Any, Final

from rich.table import Table

from analysis.report.terminal import Terminal
from full_runs.plan.dry_run import Plan
from full_runs.plan.expected import SEEDS
from full_runs.plan.fits import Memory
from simulator.planner.measure import Numbers

NEVER_RUN: Final = (
    "On paper: no run on GPUs has been executed so far, and none of these numbers was compared with one."
)
SHOWN: Final = {
    "updates_per_hour": "updates an hour",
    "rollouts_per_hour": "rollouts an hour",
    "mean_lag_updates": "lag, mean of trained rollouts (updates)",
    "p99_lag_updates": "lag, 99 % (updates)",
    "trainer_idle": "trainer idle (share)",
    "slots_idle": "engines' slots idle (share)",
    "dropped": "dropped (share)",
}


def text(name: str, plan: Plan) -> str:
    """Tables of memory, times and what is expected."""
    config, found = plan.config, plan.expected
    other = "without" if config.checkpointed else "with"
    memory = Table("GB a GPU", "trainer", "engine", title=f"Memory of {name}, on {config.accelerator}")
    for what, size in plan.trainer.bytes_of.items():
        memory.add_row(what, _gb(size), "")
    memory.add_row(f"(activations {other} checkpointing)", _gb(_activations(plan.trainer_otherwise)), "")
    for what, size in plan.engine.bytes_of.items():
        memory.add_row(what, "", _gb(size))
    memory.add_row("sum", _gb(plan.trainer.total_bytes), _gb(plan.engine.total_bytes))
    memory.add_row("usable", _gb(plan.trainer.usable_bytes), _gb(plan.engine.usable_bytes))
    times = Table("on paper", "", title="An update")
    for what, value in (
        ("tokens, prompts and responses", f"{found.tokens_per_update:,.0f}"),
        ("micro-batches on each rank", f"{found.micro_batches}"),
        ("trainer computes (s)", f"{found.trainer_s:.1f}"),
        ("of it, the critic's fits (s)", f"{found.critic_s:.1f}"),
        ("engines make its tokens, all full (s)", f"{found.generation_s:.1f}"),
        ("one decode step, full (s)", f"{found.decode_step_s:.4f}"),
        ("push (s)", f"{found.push_s:.1f}"),
        ("engines compute keys again after it (s)", f"{found.recompute_s:.1f}"),
    ):
        times.add_row(what, value)
    terminal = Terminal()
    with terminal.capture() as said:
        terminal.print(
            _opening(plan), memory, times, simulated_table(found.simulated, found.updates), NEVER_RUN
        )
    return said.get().rstrip()


def simulated_table(simulated: Numbers, updates: int) -> Table:
    """What simulations came to."""
    table = Table("simulated", "mean", "95 % ±", title=f"{SEEDS} simulations of {updates} updates")
    for field, what in SHOWN.items():
        seen = simulated[field]
        table.add_row(what, f"{seen.mean:,.3g}", f"{seen.half_width:.2g}")
    table.add_row("one update (s)", f"{3600 / simulated['updates_per_hour'].mean:,.3g}", "")
    return table


def simulated_json(simulated: Numbers) -> dict[str, dict[str, float]]:
    """The same numbers."""
    return {field: {"mean": seen.mean, "half_width": seen.half_width} for field, seen in simulated.items()}


def to_json(name: str, plan: Plan) -> str:
    """The same numbers, in bytes and seconds."""
    found = plan.expected
    return json.dumps(
        {
            "name": name,
            "executed_on_gpus": False,
            "parameters": {"total": plan.model.total, "active": plan.model.active},
            "trainer": _memory(plan.trainer),
            "trainer_activations_otherwise": _activations(plan.trainer_otherwise),
            "checkpointed": plan.config.checkpointed,
            "engine": _memory(plan.engine)
            | {"capacity_tokens": plan.capacity_tokens, "held_tokens_a_rollout": plan.held_tokens},
            "tokens_per_update": found.tokens_per_update,
            "micro_batches": found.micro_batches,
            "trainer_s": found.trainer_s,
            "critic_s": found.critic_s,
            "generation_s": found.generation_s,
            "decode_step_s": found.decode_step_s,
            "push_s": found.push_s,
            "recompute_s": found.recompute_s,
            "update_s": 3600 / found.simulated["updates_per_hour"].mean,
            "simulated": simulated_json(found.simulated),
            "simulations": SEEDS,
            "simulated_updates": found.updates,
        },
        allow_nan=False,
    )


def _opening(plan: Plan) -> str:
    config = plan.config
    where = (
        "trainer and engine on one GPU"
        if config.shares_a_gpu
        else f"{config.ranks} GPUs train, {config.engines} engines of {config.tensor_parallel} decode"
    )
    return (
        f"{config.model}: {plan.model.total:,} parameters, {plan.model.active:,} of them for a token;"
        f" {where}; {config.in_flight:,} rollouts in flight, each with {plan.held_tokens:,.0f} tokens on"
        " average;"
        f" an engine has room for {plan.capacity_tokens:,}."
    )


def _memory(memory: Memory) -> dict[str, Any]:
    return {
        "bytes": dict(memory.bytes_of),
        "total_bytes": memory.total_bytes,
        "usable_bytes": memory.usable_bytes,
    }


def _activations(memory: Memory) -> float:
    return memory.bytes_of["activations"]


def _gb(size: float) -> str:
    return f"{size / 1e9:,.2f}"
