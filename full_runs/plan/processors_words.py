"""What does a plan for processors say, as text and as JSON?"""

from __future__ import annotations

import json
from typing import Final

from rich.table import Table

from analysis.report.terminal import Terminal
from full_runs.configs.cores import as_text, shared_out
from full_runs.plan.expected import SEEDS
from full_runs.plan.processors import OnProcessors
from full_runs.plan.words import simulated_json, simulated_table

UNKNOWN: Final = (
    "How long an update takes and how old its data is cannot be computed for processors: run it, then"
    " `policylag calibrate RUN --out FOLDER`, and give `--times-from FOLDER`."
)
ELSEWHERE: Final = (
    "Times are those of the run that was calibrated: another model, estimator or machine has others."
)


def text(name: str, plan: OnProcessors) -> str:
    """A table of memory, and one of lag if there are times."""
    config = plan.config
    memory = Table("MB", "a rank", "an engine", title=f"Memory of {name}, on processors")
    for what, size in plan.rank_bytes.items():
        memory.add_row(what, _mb(size), "")
    for what, size in plan.engine_bytes.items():
        memory.add_row(what, "", _mb(size))
    memory.add_row("sum", _mb(sum(plan.rank_bytes.values())), _mb(sum(plan.engine_bytes.values())))
    opening = (
        f"{plan.model.total:,} parameters; ranks: {config.ranks}, engines: {config.engines};"
        f" {config.in_flight:,} rollouts in flight of up to {plan.longest_tokens:,} tokens, an engine has"
        f" room for {plan.capacity_tokens:,}. On this host: {_mb(plan.here_bytes)} MB, beside"
        f" interpreters and libraries.{_on_cores(plan)}"
    )
    rest = [UNKNOWN] if plan.simulated is None else [simulated_table(plan.simulated, plan.updates), ELSEWHERE]
    terminal = Terminal()
    with terminal.capture() as said:
        terminal.print(opening, memory, *rest)
    return said.get().rstrip()


def to_json(name: str, plan: OnProcessors) -> str:
    """The same numbers, in bytes; nulls where no times were given."""
    simulated = plan.simulated
    return json.dumps(
        {
            "name": name,
            "parameters": plan.model.total,
            "rank": {"bytes": dict(plan.rank_bytes), "total_bytes": sum(plan.rank_bytes.values())},
            "engine": {
                "bytes": dict(plan.engine_bytes),
                "total_bytes": sum(plan.engine_bytes.values()),
                "capacity_tokens": plan.capacity_tokens,
            },
            "this_host_bytes": plan.here_bytes,
            "cores": _cores(plan),
            "longest_tokens": plan.longest_tokens,
            "update_s": None if simulated is None else 3600 / simulated["updates_per_hour"].mean,
            "simulated": None if simulated is None else simulated_json(simulated),
            "simulations": 0 if simulated is None else SEEDS,
            "simulated_updates": plan.updates,
        },
        allow_nan=False,
    )


def _cores(plan: OnProcessors) -> dict[str, list[str]]:
    """Of each rank and of each engine; empty where the system puts them."""
    config = plan.config
    return {
        "ranks": [as_text(own) for own in shared_out(config.trainer_cores, config.ranks)],
        "engines": [as_text(own) for own in shared_out(config.engine_cores, config.engines)],
        "controller": [as_text(own) for own in shared_out(config.controller_cores, 1)],
    }


def _on_cores(plan: OnProcessors) -> str:
    of = {name: "; ".join(own) for name, own in _cores(plan).items() if own}
    whose = {"controller": "the controller"}
    return "".join(f" Cores of {whose.get(name, name)}: {own}." for name, own in of.items())


def _mb(size: float) -> str:
    return f"{size / 1e6:,.1f}"
