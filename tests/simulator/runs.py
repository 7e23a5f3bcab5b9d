"""Small pipelines for the tests, and what to read off them."""

from collections.abc import Callable

import numpy as np

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import Run, run
from simulator.pipeline.workload import UpdateResult
from simulator.rules.staleness import Staleness
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import Fixed

SMALL = {
    "slots": 1,
    "engine": FixedSpeed(seconds_per_token=1.0),
    "rollouts_per_update": 1,
    "updates": 4,
    "policy_update_s": 2.0,
    "lengths": Fixed(tokens=3),
}


def config(**changes: object) -> PipelineConfig:
    return PipelineConfig(**{**SMALL, **changes})


def simulate(
    *,
    workload: object = None,
    rule: Staleness | None = None,
    until_s: float | None = None,
    **changes: object,
) -> Run:
    return run(config(**changes), workload, rule=rule, until_s=until_s)


class Lengths:
    """A workload whose lengths are a function of prompt and member; it remembers what it was told."""

    def __init__(self, length: Callable[[int, int], int]) -> None:
        self.length_tokens = length
        self.updates = []
        self.published = []

    def train(self, update):
        self.updates.append(update)
        return UpdateResult()

    def publish(self, version):
        self.published.append(version)


def in_turn(*tokens: int) -> Lengths:
    """Prompt n has length tokens[n], the last one from there on."""
    return Lengths(lambda prompt, _member: tokens[min(prompt, len(tokens) - 1)])


def column(result: Run, table: str, name: str) -> list:
    return getattr(result.log, table).column(name).to_pylist()


def trained(result: Run):
    """The trained rollouts, as a data frame in order of training."""
    rows = result.log.rollouts.to_pandas()
    return rows[rows.status == "trained"]


def lags(result: Run) -> np.ndarray:
    """Lag of the oldest token of each trained rollout, in updates, in order of training."""
    rows = trained(result)
    return (rows.consumed_version - rows.oldest_version).to_numpy(dtype=np.int64)


def steady(values: np.ndarray) -> np.ndarray:
    """Without the start: the last three quarters."""
    return values[len(values) // 4 :]
