"""Mean lag against its closed forms and against Little's law."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from simulator import theory
from simulator.pipeline.pipeline import Run
from simulator.validation.pipelines import constant, exponential, lags_by_update, loaded, lognormal
from simulator.validation.row import Row, inside_interval, known_to_miss, within
from simulator.validation.steady import batch_means, settled

CLOSED_FORM: Final = "closed form, Applied Compute 2026"
LITTLE: Final = "Little's law in the clock of versions"


def closed_form() -> Iterator[Row]:
    """Where rollouts are the bottleneck and where training is; with and without groups; 3 %."""
    for slots, batch, group, rho, sigma, queue in (
        (64, 64, 8, 0.6, 1.0, None),
        (128, 64, 8, 0.8, 1.0, None),
        (256, 64, 8, 0.6, 1.0, None),
        (128, 128, 8, 0.6, 0.5, None),
        (64, 64, 1, 0.6, 1.0, None),
        (128, 64, 1, 0.8, 1.0, None),
        (64, 64, 8, 1.3, 1.0, 2),
        (128, 64, 8, 1.5, 1.0, 1),
        (64, 64, 8, 2.0, 0.5, 2),
    ):
        capacity = {} if queue is None else {"queue_capacity_rollouts": queue * batch}
        done = loaded(
            lognormal(sigma), slots=slots, batch=batch, rho=rho, updates=1500, group_size=group, **capacity
        )
        mean, half_width = batch_means(lags_by_update(done))
        yield within(
            0.03,
            about=f"mean lag, C {slots}, B {batch}, groups of {group}, rho {rho:g}, sigma {sigma:g}"
            + (f", queue {queue} B" if queue else ""),
            source=CLOSED_FORM,
            expected=theory.mean_lag(
                slots,
                batch,
                rho,
                group_ratio=theory.tail_ratio_lognormal(group, sigma),
                queue_batches=queue,
            ),
            simulated=mean,
            half_width=half_width,
            n=1500,
        )


def constant_lengths() -> Iterator[Row]:
    """Rollouts of one length end in bursts: there the closed form is known to fail."""
    for rho in (0.5, 0.7):
        done = loaded(constant(), slots=256, batch=64, rho=rho, updates=600)
        # Published the other way round: the prediction lies 11 to 18 % below the simulation.
        yield known_to_miss(
            0.12,
            0.24,
            about=f"mean lag, constant lengths, C 256, B 64, rho {rho:g}",
            source=CLOSED_FORM,
            expected=theory.mean_lag(256, 64, rho),
            simulated=float(lags_by_update(done).mean()),
            n=600,
        )


def little() -> Iterator[Row]:
    """Whatever the lengths and the groups, also where no closed form holds; 0.5 %."""
    for name, law in (("exponential", exponential()), ("lognormal", lognormal()), ("constant", constant())):
        for group in (1, 8):
            done = loaded(law, slots=128, batch=64, rho=0.7, updates=1200, group_size=group)
            yield within(
                0.005,
                about=f"mean lag, {name} lengths, groups of {group}",
                source=LITTLE,
                expected=theory.mean_lag_by_little(_in_system_at_publishes(done), 64),
                simulated=float(lags_by_update(done).mean()),
                n=1200,
            )


def token_weighted() -> Iterator[Row]:
    """A token meets long rollouts; weights swapped in flight halve what that costs; 4 %.

    The square of a lognormal length has tails of its own, so the expected number takes the coefficient of
    variation that the run really had.
    """
    for slots, batch in ((64, 64), (256, 64)):
        done = loaded(lognormal(), slots=slots, batch=batch, rho=0.6, updates=4000)
        rollouts = done.log.rollouts.to_pandas()
        trained = rollouts[rollouts.status == "trained"]
        segments = done.log.segments.to_pandas().merge(
            trained[["rollout_id", "consumed_version"]], on="rollout_id"
        )
        lengths = trained.action_tokens.to_numpy(dtype=np.float64)
        cv = float(lengths.std() / lengths.mean())
        measured = {
            True: np.average(segments.consumed_version - segments.version, weights=segments.tokens),
            False: np.average(trained.consumed_version - trained.oldest_version, weights=lengths),
        }
        for swapped, simulated in measured.items():
            yield within(
                0.04,
                about=f"mean lag of a token, C {slots}, B {batch}, "
                + ("weights swapped in flight" if swapped else "from the first token's weights"),
                source="length-biased sampling",
                expected=theory.token_weighted_lag(slots, batch, 0.6, cv, swaps_in_flight=swapped),
                simulated=float(simulated),
                n=len(trained),
            )


def saturated_throughput() -> Iterator[Row]:
    """Busy slots finish C / E[L] rollouts a second, whatever the shape of the lengths."""
    for name, law in (("exponential", exponential()), ("lognormal", lognormal())):
        done = loaded(law, slots=64, batch=64, rho=0.5, updates=1500)
        end_s = done.log.updates.column("train_start_s").to_numpy()
        mean, half_width = batch_means(settled(np.diff(end_s)))
        yield inside_interval(
            about=f"seconds a batch, {name} lengths, C 64, B 64",
            source="renewal reward",
            expected=1.0,
            simulated=mean,
            half_width=half_width,
            n=len(end_s),
        )


def _in_system_at_publishes(done: Run) -> float:
    """Started and not yet taken, just before the trainer's next take, on average."""
    rows = done.log.rollouts.to_pandas()
    published_s = done.log.updates.column("published_s").to_numpy()
    started = np.searchsorted(np.sort(rows.started_s), published_s, side="left")
    taken = np.searchsorted(np.sort(rows.consumed_s.dropna()), published_s, side="left")
    mean = float(settled(started - taken).mean())
    assert math.isfinite(mean)
    return mean
