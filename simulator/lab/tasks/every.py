"""The world that a configuration names, built."""

from __future__ import annotations

from simulator.lab.parts import Task
from simulator.lab.tasks.modular_addition import ModularAddition
from simulator.lab.worlds import World


def task_of(world: World, seed: int) -> Task:
    """The world of one run.

    Args:
        seed: of the run: of prompts, of what samplers draw, and of starting weights.
    """
    return ModularAddition(modulus=world.modulus, questions=world.questions, hidden=world.hidden, seed=seed)
