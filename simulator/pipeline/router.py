"""Where does a rollout go, of the engines that could take it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from simulator.pipeline.engine import Engine

Router: TypeAlias = Callable[[Sequence[Engine]], Engine]
"""Which of the engines that could take a rollout gets it?"""


def longest_free(engines: Sequence[Engine]) -> Engine:
    """The slot that has waited longest: at fixed speed all are alike."""
    return min(engines, key=lambda engine: engine.free[0])


def least_loaded(engines: Sequence[Engine]) -> Engine:
    """The engine that runs least, the first of equals."""
    return min(engines, key=lambda engine: (engine.running, engine.index))
