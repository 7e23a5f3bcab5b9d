"""What waiting for the slowest costs, and what waiting in line does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator import theory
from simulator.config import Sync
from simulator.pipeline.pipeline import Run
from simulator.validation.pipelines import exponential, loaded, lognormal
from simulator.validation.row import Row, inside_interval
from simulator.validation.steady import batch_means, settled


def order_statistics() -> Iterator[Row]:
    """A wave of n rollouts on n slots lasts M_n mean rollouts, inside the Monte-Carlo interval."""
    for n in (8, 16, 64):
        for name, law, ratio in (
            ("exponential", exponential(), theory.tail_ratio_exponential(n)),
            ("lognormal sigma 0.5", lognormal(0.5), theory.tail_ratio_lognormal(n, 0.5)),
            ("lognormal sigma 1", lognormal(), theory.tail_ratio_lognormal(n, 1.0)),
        ):
            waves = 4000
            done = loaded(law, slots=n, batch=n, rho=0.0, updates=waves, staleness=Sync())
            ends_s = done.log.updates.column("train_end_s").to_numpy()
            mean, half_width = batch_means(np.diff(ends_s, prepend=0.0))
            yield inside_interval(
                about=f"longest of {n} over the mean, {name}",
                source="order statistics",
                expected=ratio,
                simulated=mean,
                half_width=half_width,
                n=waves,
            )


def waits_for_the_trainer() -> Iterator[Row]:
    """The trainer as a single server: arrivals of many slots are Poisson, so waits are Pollaczek-Khinchine's.

    A batch of one rollout; 512 slots that each send one every 1 / 512 of the arrival rate. The queue is
    bounded by nothing, the load below one.
    """
    slots = 512
    for rho in (0.5, 0.8):
        done = loaded(exponential(), slots=slots, batch=1, rho=rho, updates=60_000)
        mean, half_width = batch_means(_waits_s(done))
        service_s = rho / slots
        yield inside_interval(
            about=f"wait in the queue of one server, constant service, rho {rho:g} (M/D/1)",
            source="Pollaczek-Khinchine",
            expected=rho / (2 * (1 - rho)) * service_s,
            simulated=mean,
            half_width=half_width,
            n=60_000,
        )


def _waits_s(done: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rows = done.log.rollouts.to_pandas()
    trained = rows[rows.status == "trained"].sort_values("consumed_s")
    return settled((trained.consumed_s - trained.enqueued_s).to_numpy())
