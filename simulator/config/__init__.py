"""What is simulated? The pipeline's parameters, checked once.

staleness: rules about old data, by name. record: all parameters. checks: what could never go on. decisions:
what follows from them.
"""

from simulator.config.decisions import length_law, shape_of, share_clipped, staleness_rule
from simulator.config.record import PipelineConfig
from simulator.config.staleness import BoundedLag, DropByAge, OneStepOff, StalenessRule, Sync, Unbounded

__all__ = [
    "BoundedLag",
    "DropByAge",
    "OneStepOff",
    "PipelineConfig",
    "StalenessRule",
    "Sync",
    "Unbounded",
    "length_law",
    "shape_of",
    "share_clipped",
    "staleness_rule",
]
