r"""Trinity-RFT, explorer and trainer apart: synchronous runs are fitted, one-step-off and async predicted.

All tasks of a sync interval start together and are explored by C rollouts at a time; batches are trained as
they fill; at the end of the interval both sides meet. One-step-off explores one step ahead of that. The fully
asynchronous run is two processes that share a queue and checkpoints, and neither waits for the other.

Free are the mean and the sigma of a rollout's lognormal duration, the training time of a batch, and the time
of a sync. They are fitted to the runs with sync intervals 1, 2 and 10, by least squares on logarithms. Step
times alone do not tell which side is the bottleneck, so on GSM8K the utilisation of those runs is fitted with
them, taken as the share of its time that a GPU has something to do. ALFWorld's utilisation is not published:
there training takes a time for each rollout, a sync none, and both batch sizes share what is fitted.

Choices: C is 256 on GSM8K (32 runners of 8 rollouts, the documented example) and on ALFWorld the multiple of
32 that fits best. A checkpoint holds weights and Adam's moments in 32 bits, written at 3 GB/s while training
waits: the documented asynchronous example syncs by checkpoints. This is the one reason why asynchronous 7B
is slower here than synchronous with interval 10. With a sync as cheap as the others' it would take 22.3 s a
step against 23.8, for it never waits for more; the order is right for checkpoints of 16 s and more, and with
the 30 s assumed the step is 25.3 s.

References:
    Pan et al., Trinity-RFT, 2025, https://arxiv.org/abs/2505.17826v3; learning rate 0, 100 steps, 8 x A100.
    https://modelscope.github.io/Trinity-RFT/en/v0.3.3/tutorial/example_async_mode.html
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from heapq import heapreplace
from typing import Final, final

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import Run, run
from simulator.rules.admission import always
from simulator.rules.counts import Counts
from simulator.rules.on_sync import drain, pull_when_idle
from simulator.rules.staleness import Staleness
from simulator.validation.row import Row, above, within
from simulator.validation.wave import Floats, lognormal_sample, trained_by_s
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import LogNormalOfLog

SOURCE: Final = "Trinity-RFT, arXiv 2505.17826v3"
GROUP: Final = 8
MEAN_TOKENS: Final = 10_000
STEP_S: Final = 60 / 100
"""Of a step, for each minute that 100 steps took."""
CHECKPOINT_BYTES_PER_S: Final = 3e9
CHECKPOINT_BYTES_A_PARAMETER: Final = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
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


def trinity_gsm8k() -> Iterator[Row]:
    """Fitted and predicted steps, and which of the two with interval 10 is slower."""
    for setting in GSM8K:
        yield from _rows(setting, fitted_gsm8k(setting.name))
    large = GSM8K[1]
    costs = fitted_gsm8k(large.name)
    yield above(
        about="seconds a step, GSM8K 7B: async above sync 10",
        source=SOURCE,
        expected=seconds_a_step(synchronous(large, costs, interval=10)),
        simulated=seconds_a_step(asynchronous(large, costs)),
        n=30,
    )


def trinity_alfworld() -> Iterator[Row]:
    """Episodes of many turns, whose longest sets the pace of a small batch."""
    costs = fitted_alfworld()
    for setting in ALFWORLD:
        yield from _rows(setting, _for_batch(costs, setting.batch))


@cache
def fitted_gsm8k(name: str) -> Costs:
    """The better of two fits: one begins with a slow explorer, one with a slow trainer."""
    setting = next(s for s in GSM8K if s.name == name)
    return fit_with_utilisation(setting)


def fit_with_utilisation(setting: Setting, *, slots: int = 256, batches: int = 32) -> Costs:
    """The costs of one setting: step times and utilisation of its synchronous runs."""
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
                period(_for_batch(costs, setting.batch), setting.batch, interval, batches=batches)[0]
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


def in_step(batch: int, *, interval: int, ahead: int = 0) -> Staleness:
    """The tasks of an interval start at once, `ahead` batches more; a sync waits for all that runs."""

    def admission(counts: Counts) -> int:
        return (counts.engine_version_batches + interval + ahead) * batch - counts.submitted_rollouts

    return Staleness(admission=admission, on_sync=drain())


def synchronous(setting: Setting, costs: Costs, *, interval: int) -> Run:
    return _run(setting, costs, in_step(setting.batch, interval=interval), interval=interval)


def one_step_off(setting: Setting, costs: Costs) -> Run:
    return _run(setting, costs, in_step(setting.batch, interval=1, ahead=1), interval=1)


def asynchronous(setting: Setting, costs: Costs) -> Run:
    """The explorer loads a checkpoint when it has run empty; the trainer writes one every ten steps."""
    rule = Staleness(admission=always, on_sync=pull_when_idle())
    return _run(setting, costs, rule, interval=10, more_s=checkpoint_s(setting) / 10)


def checkpoint_s(setting: Setting) -> float:
    return setting.parameters * CHECKPOINT_BYTES_A_PARAMETER / CHECKPOINT_BYTES_PER_S


def seconds_a_step(done: Run, *, left_out: int = 10) -> float:
    """Mean over the steps after the first ten: from the end of one training to the end of another."""
    ends_s = done.log.updates.column("train_end_s").to_numpy()
    return float(ends_s[-1] - ends_s[left_out - 1]) / (len(ends_s) - left_out)


def _run(setting: Setting, costs: Costs, rule: Staleness, *, interval: int, more_s: float = 0.0) -> Run:
    config = PipelineConfig(
        slots=costs.slots,
        engine=FixedSpeed(seconds_per_token=costs.rollout_s / MEAN_TOKENS),
        group_size=GROUP,
        rollouts_per_update=setting.batch,
        batches_per_push=interval,
        updates=40,
        policy_update_s=costs.train_s + more_s,
        push_s=costs.sync_s,
        lengths=LogNormalOfLog(mu=math.log(MEAN_TOKENS) - costs.sigma**2 / 2, sigma=costs.sigma),
        seed=3,
    )
    return run(config, rule=rule)


def _rows(setting: Setting, costs: Costs) -> Iterator[Row]:
    runs = {f"sync {k}, fitted": synchronous(setting, costs, interval=k) for k in setting.synchronous_min}
    runs["one-step-off, predicted"] = one_step_off(setting, costs)
    runs["async 10, predicted"] = asynchronous(setting, costs)
    measured = (*setting.synchronous_min.values(), setting.one_step_off_min, setting.asynchronous_min)
    for (name, done), minutes in zip(runs.items(), measured, strict=True):
        yield within(
            0.15,
            about=f"seconds a step, {setting.name}, {name}",
            source=SOURCE,
            expected=minutes * STEP_S,
            simulated=seconds_a_step(done),
            n=30,
        )


def _costs(point: Floats, slots: int) -> Costs:
    rollout_s, sigma, train_s, sync_s = np.exp(point).tolist()
    return Costs(rollout_s=rollout_s, sigma=sigma, train_s=train_s, sync_s=sync_s, slots=slots)


def _by_rollout(point: Floats, slots: int) -> Costs:
    rollout_s, sigma, train_s = np.exp(point).tolist()
    return Costs(rollout_s=rollout_s, sigma=sigma, train_s=train_s, sync_s=0.0, slots=slots)


def _for_batch(costs: Costs, batch: int) -> Costs:
    return Costs(
        rollout_s=costs.rollout_s,
        sigma=costs.sigma,
        train_s=costs.train_s * batch,
        sync_s=costs.sync_s,
        slots=costs.slots,
    )


def _cost(result: OptimizeResult) -> float:
    return float(result.cost)
