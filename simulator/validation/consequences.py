"""What follows from a rule, whatever the numbers: selection, queues, and what a push does to what runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.pipeline.pipeline import Run
from simulator.rules.admission import always, bounded_run_ahead
from simulator.rules.on_sync import abort_and_restart, abort_and_resume, keep
from simulator.rules.selection import fifo, in_order
from simulator.rules.staleness import Staleness
from simulator.validation.pipelines import MEAN_TOKENS, exponential, lags_by_update, loaded, lognormal
from simulator.validation.row import Row, above, within
from simulator.validation.steady import batch_means, settled
from simulator.world.decoding import LoadDependent

PREFILL_S: Final = 0.2
"""To compute all prefixes of 64 slots again."""


def first_batches() -> Iterator[Row]:
    """What is ready first is short, and so is the first batch, unless batches are trained in order."""
    for name, selection in (("the first that are ready", fifo), ("in order", in_order)):
        done = loaded(
            lognormal(0.5),
            slots=512,
            batch=256,
            rho=0.5,
            updates=12,
            rule=Staleness(admission=bounded_run_ahead(1), selection=selection),
        )
        tokens = _trained_tokens(done)
        first = float(tokens[:256].mean()) / MEAN_TOKENS
        source = "ready-first selection"
        if selection is fifo:
            yield above(
                about=f"mean length over that of the first batch, {name}",
                source=source,
                expected=1.0,
                simulated=float(tokens[256 * 6 :].mean()) / MEAN_TOKENS / first,
                n=12,
            )
        else:
            yield within(
                0.1,
                about=f"mean length of the first batch, {name}",
                source=source,
                expected=1.0,
                simulated=first,
                n=256,
            )


def queue_capacity() -> Iterator[Row]:
    """A batch more in the queue costs 1 / rho updates where training is the bottleneck, and else nothing."""
    source = "closed form, Applied Compute 2026"
    for rho in (1.5, 0.6):
        one, two = (
            float(
                lags_by_update(
                    loaded(
                        lognormal(),
                        slots=128,
                        batch=64,
                        rho=rho,
                        updates=1500,
                        queue_capacity_rollouts=64 * capacity,
                    )
                ).mean()
            )
            for capacity in (1, 2)
        )
        bound = "training" if rho > 1 else "sampling"
        yield within(
            0.05,
            about=f"mean lag, queue 2 B, {bound}-bound, rho {rho:g}, from queue 1 B",
            source=source,
            expected=one + (1 / rho if rho > 1 else 0.0),
            simulated=two,
            n=1500,
        )


def starvation() -> Iterator[Row]:
    """Begun again at each push, a rollout ends only if it fits between two; resumed, it always ends."""
    source = "abort and requeue, abort and resume"
    for on_sync in (abort_and_restart(), abort_and_resume()):
        done = loaded(
            lognormal(),
            slots=64,
            batch=32,
            rho=2.0,
            updates=400,
            rule=Staleness(admission=always, on_sync=on_sync),
        )
        published_s = np.unique(done.log.updates.column("published_s").to_numpy())
        longest_gap_s = float(np.diff(published_s, prepend=0.0).max())
        longest_s = float(_trained_tokens(done).max()) / MEAN_TOKENS
        restarts = on_sync.running == "restart"
        yield above(
            about="longest time between pushes over longest rollout, restarted"
            if restarts
            else "longest rollout over longest time between pushes, resumed",
            source=source,
            expected=1.0,
            simulated=longest_gap_s / longest_s if restarts else longest_s / longest_gap_s,
            n=400 * 32,
        )


def prefixes_again() -> Iterator[Row]:
    """Recomputing what runs costs its prefixes at each push, and half of E[L^2] / E[L] is the mean prefix.

    Exponential lengths: a prefix is E[L] tokens on average, and a batch takes one second to sample.
    """
    prefill_s = PREFILL_S / (64 * MEAN_TOKENS)
    for name, on_sync, expected in (
        ("kept", keep(), 1.0),
        ("computed again", abort_and_resume(), 1.0 + PREFILL_S),
    ):
        done = loaded(
            exponential(),
            slots=64,
            batch=64,
            rho=0.5,
            updates=1500,
            engine=_engine(prefill_s),
            rule=Staleness(admission=always, on_sync=on_sync),
        )
        mean, half_width = batch_means(settled(np.diff(done.log.updates.column("train_start_s").to_numpy())))
        yield within(
            0.02,
            about=f"seconds a batch, keys and values {name} at a push",
            source="renewal reward: the mean prefix is E[L^2] / 2 E[L]",
            expected=expected,
            simulated=mean,
            half_width=half_width,
            n=1500,
        )


def _engine(prefill_s: float) -> LoadDependent:
    """A step takes the same time whatever runs."""
    return LoadDependent(
        step_fixed_s=1 / MEAN_TOKENS,
        step_s_per_rollout=0.0,
        step_s_per_kv_token=0.0,
        prefill_s_per_token=prefill_s,
    )


def _trained_tokens(done: Run) -> NDArray[np.float64]:
    """Lengths, in the order in which they were trained."""
    rows = done.log.rollouts.to_pandas()
    trained = rows[rows.status == "trained"].sort_values("consumed_version", kind="stable")
    return np.asarray(trained.action_tokens, dtype=np.float64)
