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
from simulator.world.amounts import Amount
from simulator.world.episodes import MultiTurn


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


def waits_for_a_slot() -> Iterator[Row]:
    """Environments that start, or work between turns: waits for slots are those of machines for repair.

    Exact whatever the law of the time away, and whoever is served first.
    """
    start = {"environment_start_s": Amount(mean=3.0, law="exponential")}
    constant = {"environment_start_s": Amount(mean=3.0)}
    tools = {
        "environment_start_s": Amount(mean=3.0, law="exponential"),
        "episode": MultiTurn(
            mean_turns=4, latency_s=Amount(mean=3.0, law="lognormal", cv=2.0), keys_between_turns="kept"
        ),
    }
    for name, environments, slots, settings, turns in (
        ("exponential start-up", 16, 4, start, 1),
        ("constant start-up", 16, 4, constant, 1),
        ("exponential start-up, near saturation", 64, 16, start, 1),
        ("4 turns, heavy-tailed tools", 16, 4, tools, 4),
    ):
        done = loaded(
            exponential(),
            slots=slots,
            batch=1,
            rho=0.0,
            updates=20_000,
            environments=environments,
            **settings,
        )
        rows = done.log.rollouts.to_pandas()
        waits_s = rows[rows.status == "trained"].sort_values("rollout_id").slot_wait_s.to_numpy()
        mean, half_width = batch_means(settled(waits_s))
        yield inside_interval(
            about=f"wait for one of {slots} slots, {environments} environments, {name}",
            source="M/M/c//N, product form",
            expected=turns * theory.slot_wait(environments, slots, 3.0),
            simulated=mean,
            half_width=half_width,
            n=20_000,
        )


def _waits_s(done: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    rows = done.log.rollouts.to_pandas()
    trained = rows[rows.status == "trained"].sort_values("consumed_s")
    return settled((trained.consumed_s - trained.enqueued_s).to_numpy())
