"""What do the words of `policylag plan` ask for?

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from simulator.command_line import BadInputError, Options, read_experiment, with_lengths
from simulator.config import PipelineConfig
from simulator.folders import must_be_free
from simulator.planner.config import PlanConfig
from simulator.planner.scenarios import SCENARIOS

Compared: TypeAlias = Literal["group,single"]


@dataclass(frozen=True)
class PlanOptions(Options):
    """Where things come from and where they go."""

    compare: Compared | None = None
    """`group,single`: what does the group barrier cost, at equal machines?"""
    updates_wanted: int = 1000
    """Whose hours a comparison states."""
    published: bool = False
    """The roofline beside published measurements, and nothing else."""
    jobs: int = os.cpu_count() or 1
    """Simulations at once, each in a process of its own."""


def ask(words: list[str]) -> tuple[str, PlanConfig, PlanOptions]:
    """`[SCENARIO] [--model.parameters-total N] [--machines N] [--lengths-csv FILE] [--system NAME] ...`.

    Returns:
        The scenario's name, the question, and what to do with the answer.

    Raises:
        BadInputError: an unknown scenario, field or system, an impossible value, an unreadable file.
    """
    about = "Throughput, lag and idleness over GPU split, rollouts in flight and staleness bound."
    name, config, options = read_experiment(words, SCENARIOS, PlanOptions(), command="plan", about=about)
    for field in ("jobs", "updates_wanted"):
        if getattr(options, field) < 1:
            raise BadInputError(f"plan: {field} must be at least 1, got {getattr(options, field)}")
    # A plan holds its lengths under the same name as a pipeline.
    config = cast(PlanConfig, with_lengths(cast(PipelineConfig, config), options))
    if options.compare and config.group_size == 1:
        raise BadInputError("plan: compare needs groups, and group_size is 1")
    must_be_free(options.out)
    return name, config, options
