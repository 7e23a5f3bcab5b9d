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
from collections.abc import Iterator
from typing import Final

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import Run, run
from simulator.rules.admission import always
from simulator.rules.counts import Counts
from simulator.rules.on_sync import drain, pull_when_idle
from simulator.rules.staleness import Staleness
from simulator.validation.row import Row, above, within
from simulator.validation.trinity_fit import (
    ALFWORLD,
    GROUP,
    GSM8K,
    STEP_S,
    Costs,
    Setting,
    fitted_alfworld,
    fitted_gsm8k,
    for_batch,
)
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import LogNormalOfLog

SOURCE: Final = "Trinity-RFT, arXiv 2505.17826v3"
MEAN_TOKENS: Final = 10_000
CHECKPOINT_BYTES_PER_S: Final = 3e9
CHECKPOINT_BYTES_A_PARAMETER: Final = 12


def trinity_gsm8k() -> Iterator[Row]:
    """Fitted and predicted steps, and which of the two with interval 10 is slower."""
    for setting in GSM8K:
        yield from _rows(setting, fitted_gsm8k(setting))
    large = GSM8K[1]
    costs = fitted_gsm8k(large)
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
        yield from _rows(setting, for_batch(costs, setting.batch))


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
