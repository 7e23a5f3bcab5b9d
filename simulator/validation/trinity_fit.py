"""What do rollouts, training and syncs of the published Trinity-RFT runs cost? The model is in `trinity`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from heapq import heapreplace
from typing import Final, final

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from simulator.validation.wave import Floats, lognormal_sample, trained_by_s

GROUP: Final = 8
STEP_S: Final = 60 / 100
"""Of a step, for each minute that 100 steps took."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """A model, its batch, and what was measured."""

    name: str
    parameters: float
    batch: int
    """Rollouts."""
    explorer_gpus: int
    synchronous_min: Mapping[int, float]
    """Of 100 steps, by sync interval."""
    utilisation: Mapping[int, float]
    """Of all eight GPUs, by sync interval."""
    one_step_off_min: float
    asynchronous_min: float
    """With sync interval 10."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What is fitted; seconds."""

    rollout_s: float
    """Mean."""
    sigma: float
    train_s: float
    """Of a batch."""
    sync_s: float
    slots: int


GSM8K: Final = (
    Setting(
        name="GSM8K 1.5B",
        parameters=1.5e9,
        batch=96 * GROUP,
        explorer_gpus=2,
        synchronous_min={1: 38.70, 2: 31.19, 10: 24.28},
        utilisation={1: 0.3364},
        one_step_off_min=30.84,
        asynchronous_min=23.97,
    ),
    Setting(
        name="GSM8K 7B",
        parameters=7.6e9,
        batch=96 * GROUP,
        explorer_gpus=2,
        synchronous_min={1: 68.71, 2: 52.44, 10: 37.17},
        utilisation={1: 0.5561, 2: 0.6488, 10: 0.7844},
        one_step_off_min=40.73,
        asynchronous_min=42.17,
    ),
)
ALFWORLD: Final = (
    Setting(
        name="ALFWorld 3B, batch 4",
        parameters=3.1e9,
        batch=4 * GROUP,
        explorer_gpus=4,
        synchronous_min={1: 333.68, 2: 196.64, 10: 64.09},
        utilisation={},
        one_step_off_min=340.12,
        asynchronous_min=61.27,
    ),
    Setting(
        name="ALFWorld 3B, batch 32",
        parameters=3.1e9,
        batch=32 * GROUP,
        explorer_gpus=4,
        synchronous_min={1: 561.21, 2: 496.80, 10: 352.11},
        utilisation={},
        one_step_off_min=494.13,
        asynchronous_min=339.51,
    ),
)


@cache
def fitted_gsm8k(setting: Setting) -> Costs:
    return fit_with_utilisation(setting)


def fit_with_utilisation(setting: Setting, *, slots: int = 256, batches: int = 32) -> Costs:
    """The costs of one setting: step times and utilisation of its synchronous runs.

    The better of two fits: one begins with a slow explorer, one with a slow trainer.
    """
    pace_s = setting.synchronous_min[10] * STEP_S

    def misses(point: Floats) -> list[float]:
        costs = _costs(point, slots)
        found = []
        for interval, minutes in setting.synchronous_min.items():
            step_s, explored_s = period(costs, setting.batch, interval, batches=batches)
            found.append(math.log(step_s / (minutes * STEP_S)))
            if interval in setting.utilisation:
                busy_s = setting.explorer_gpus * explored_s + (8 - setting.explorer_gpus) * costs.train_s
                found.append(math.log(busy_s / 8 / step_s / setting.utilisation[interval]))
        return found

    rollout_s = pace_s * slots / setting.batch
    starts = ((rollout_s, 0.3, 0.3 * pace_s, 1.0), (0.4 * rollout_s, 0.5, pace_s, 1.0))
    results = [
        least_squares(
            misses,
            np.log(start),
            bounds=(np.log([1e-2, 0.05, 0.1, 0.05]), np.log([1e4, 1.5, 1e4, 100.0])),
            diff_step=np.array([1e-3]),
            max_nfev=60,
        )
        for start in starts
    ]
    return _costs(min(results, key=_cost).x, slots)


@cache
def fitted_alfworld() -> Costs:
    """One fit for both batch sizes and each multiple of 32; `train_s` is that of one rollout."""
    fits = [(fit_by_batch(ALFWORLD, slots=slots), slots) for slots in range(64, 257, 32)]
    result, slots = min(fits, key=lambda pair: _cost(pair[0]))
    return _by_rollout(result.x, slots)


def fit_by_batch(settings: tuple[Setting, ...], *, slots: int, batches: int = 32) -> OptimizeResult:
    """Rollouts' durations and the training time of one, from synchronous runs with several batch sizes."""

    def misses(point: Floats) -> list[float]:
        costs = _by_rollout(point, slots)
        return [
            math.log(
                period(for_batch(costs, setting.batch), setting.batch, interval, batches=batches)[0]
                / (minutes * STEP_S)
            )
            for setting in settings
            for interval, minutes in setting.synchronous_min.items()
        ]

    return least_squares(
        misses,
        np.log([100.0, 0.4, 0.1]),
        bounds=(np.log([1.0, 0.02, 1e-4]), np.log([3000.0, 1.5, 10.0])),
        diff_step=np.array([1e-3]),
        max_nfev=40,
    )


def period(costs: Costs, batch: int, interval: int, *, batches: int = 32) -> tuple[float, float]:
    """Seconds of a step of the synchronous mode, and seconds of a step in which the explorer works.

    What the pipeline makes of it, without its events; from common random numbers.

    Args:
        batches: that are averaged over, at least.
    """
    sample = lognormal_sample(
        interval * batch,
        mean=costs.rollout_s,
        sigma=costs.sigma,
        cap=math.inf,
        draws=math.ceil(batches / interval),
    )
    steps_s, explored_s = [], []
    for seconds in sample:
        groups_s = np.sort(ends_in_slots_s(seconds, costs.slots).reshape(-1, GROUP).max(axis=1))
        ready_s = groups_s[batch // GROUP - 1 :: batch // GROUP]
        steps_s.append(trained_by_s(ready_s, costs.train_s) + costs.sync_s)
        explored_s.append(groups_s[-1])
    return float(np.mean(steps_s)) / interval, float(np.mean(explored_s)) / interval


def ends_in_slots_s(seconds: Floats, slots: int) -> Floats:
    """When each of these rollouts ends, started in order, each in the slot that is free first."""
    free = [0.0] * slots
    ends = np.empty(len(seconds))
    for i, one in enumerate(seconds.tolist()):
        ends[i] = free[0] + one
        heapreplace(free, ends[i])
    return ends


def _costs(point: Floats, slots: int) -> Costs:
    rollout_s, sigma, train_s, sync_s = np.exp(point).tolist()
    return Costs(rollout_s=rollout_s, sigma=sigma, train_s=train_s, sync_s=sync_s, slots=slots)


def _by_rollout(point: Floats, slots: int) -> Costs:
    rollout_s, sigma, train_s = np.exp(point).tolist()
    return Costs(rollout_s=rollout_s, sigma=sigma, train_s=train_s, sync_s=0.0, slots=slots)


def for_batch(costs: Costs, batch: int) -> Costs:
    """Training that takes `train_s` for each rollout, for so many."""
    return replace(costs, train_s=costs.train_s * batch)


def _cost(result: OptimizeResult) -> float:
    return float(result.cost)
