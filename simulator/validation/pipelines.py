"""The pipelines that closed forms speak of: slots always busy, a load rho, and lengths of mean one second."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import Run, run
from simulator.rules.staleness import Staleness
from simulator.validation.steady import settled
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import Exponential, Fixed, Law, LogNormalOfLog

MEAN_TOKENS: Final = 100_000
"""So long that whole tokens are as good as seconds: a mean rollout takes one."""


def exponential() -> Law:
    return Exponential(mean_tokens=MEAN_TOKENS)


def lognormal(sigma: float = 1.0) -> Law:
    """Of mean `MEAN_TOKENS`; sigma is the standard deviation of the logarithm."""
    return LogNormalOfLog(mu=math.log(MEAN_TOKENS) - sigma**2 / 2, sigma=sigma)


def constant() -> Law:
    return Fixed(tokens=MEAN_TOKENS)


def loaded(law: Law, *, slots: int, batch: int, rho: float, updates: int, **more: Any) -> Run:
    """A pipeline of load rho: a batch takes batch / slots seconds to generate and rho times that to train.

    Args:
        more: other fields of the configuration, and `rule` for `run`.
    """
    rule: Staleness | None = more.pop("rule", None)
    settings: dict[str, Any] = {
        "slots": slots,
        "engine": FixedSpeed(seconds_per_token=1 / MEAN_TOKENS),
        "rollouts_per_update": batch,
        "updates": updates,
        "policy_update_s": rho * batch / slots,
        "lengths": law,
        "seed": 3,
    }
    return run(PipelineConfig(**(settings | more)), rule=rule)


def lags_by_update(done: Run) -> NDArray[np.float64]:
    """`mean_lags` without the start."""
    return settled(mean_lags(done))


def mean_lags(done: Run) -> NDArray[np.float64]:
    """Mean lag of each update's rollouts, from their oldest tokens, in order."""
    table = done.log.rollouts
    kept = np.asarray(table.column("status")) == "trained"
    consumed = table.column("consumed_version").to_numpy()[kept].astype(np.int64)
    lag = consumed - table.column("oldest_version").to_numpy()[kept]
    sums, counts = np.bincount(consumed, weights=lag), np.bincount(consumed)
    return np.asarray(sums / np.maximum(counts, 1))
