"""What gates and drops do to lags and lengths."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.config import BoundedLag, DropByAge
from simulator.pipeline.pipeline import Run
from simulator.validation.pipelines import MEAN_TOKENS, lags_by_update, loaded, lognormal
from simulator.validation.row import Row, above, within
from simulator.validation.steady import batch_means, settled


def aggregate_gate() -> Iterator[Row]:
    """AReaL's gate: the mean lag is eta, and single rollouts exceed it by far."""
    for eta in (1, 3):
        done = loaded(
            lognormal(), slots=256, batch=32, rho=4.0, updates=2000, staleness=BoundedLag(eta_batches=eta)
        )
        lags = lags_by_update(done)
        mean, half_width = batch_means(lags)
        source = "conservation: submissions lead consumption by eta batches"
        yield within(
            0.02,
            about=f"mean lag behind AReaL's gate, eta {eta}",
            source=source,
            expected=float(eta),
            simulated=mean,
            half_width=half_width,
            n=2000,
        )
        yield above(
            about=f"largest lag of a rollout behind AReaL's gate, eta {eta}",
            source="the gate bounds a sum, not a rollout",
            expected=float(eta),
            simulated=float(_lags(done).max()),
            n=2000 * 32,
        )


def drops() -> Iterator[Row]:
    """Dropping by age shortens what is trained; dropping the oldest of a full queue does not."""
    by_age = loaded(
        lognormal(), slots=128, batch=32, rho=0.5, updates=1000, staleness=DropByAge(max_lag_updates=4)
    )
    by_number = loaded(lognormal(), slots=128, batch=32, rho=2.0, updates=1000, queue_capacity_rollouts=32)
    shortened, kept = (_mean_trained_tokens(done) / MEAN_TOKENS for done in (by_age, by_number))
    yield above(
        about="mean length generated over trained, dropped when more than 4 updates old",
        source="drop by age prefers the short",
        expected=1.0,
        simulated=1 / shortened,
        n=1000 * 32,
    )
    yield within(
        0.03,
        about="mean length trained over generated, the oldest of a full queue dropped",
        source="drop-oldest is blind to length",
        expected=1.0,
        simulated=kept,
        n=1000 * 32,
    )


def _trained(done: Run, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    table = done.log.rollouts
    kept = np.asarray(table.column("status")) == "trained"
    return settled(table.column(column).to_numpy()[kept])


def _lags(done: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return _trained(done, "consumed_version") - _trained(done, "oldest_version")


def _mean_trained_tokens(done: Run) -> float:
    return float(_trained(done, "action_tokens").mean())
