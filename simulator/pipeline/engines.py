"""Which engines does a configuration ask for, and how fast is each?"""

from __future__ import annotations

from simulator.config import PipelineConfig
from simulator.eventlog import Row
from simulator.pipeline.engine import Engine
from simulator.pipeline.failing import speed
from simulator.pipeline.fixed_speed import FixedSpeedEngine
from simulator.pipeline.loaded import LoadedEngine
from simulator.pipeline.occupancy import Occupancy
from simulator.pipeline.rollout import Rollouts
from simulator.world.decoding import FixedSpeed
from simulator.world.failures import Faults


def engines_of(config: PipelineConfig, faults: Faults, table: Rollouts, intervals: list[Row]) -> list[Engine]:
    """All engines of a pipeline; their slots write into `intervals` when they were busy."""
    engines: list[Engine] = []
    for i in range(config.engines):
        model = speed(config, faults, i)
        slots = [
            Occupancy(f"engine-{i}/slot-{slot}", intervals) for slot in range(config.slots // config.engines)
        ]
        if isinstance(model, FixedSpeed):
            engines.append(FixedSpeedEngine(i, table, slots, seconds_per_token=model.seconds_per_token))
        else:
            engines.append(LoadedEngine(i, table, slots, load=model, prompt_tokens=config.prompt_tokens))
    return engines
