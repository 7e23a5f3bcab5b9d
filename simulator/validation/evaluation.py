"""The evaluation transient: requests that nobody trains on hold the engines, and data grows old behind them.

A fork of miles reports a mean lag of 0.78 that rose to 2.58 for several steps when an evaluation shared the
engines; its settings are not published, so only the direction is compared. It takes several batches in flight
(here four): they grow old together. With one batch in flight the trainer starves instead, no version is made
meanwhile, and the lag *falls* for some updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulator.validation.pipelines import exponential, loaded, mean_lags
from simulator.validation.row import Row, above

SOURCE: Final = "miles fork, evaluation sharing the engines: 0.78 -> 2.58"


def evaluation_transient() -> Iterator[Row]:
    """Mean lag of the updates right after an evaluation, over that of those before the next."""
    every, updates = 40, 1200
    for slots, rises in ((64, True), (16, False)):
        done = loaded(
            exponential(),
            slots=slots,
            batch=16,
            rho=0.6,
            updates=updates,
            validate_every_updates=every,
            validation_rollouts=2 * slots,
            validation_blocks_trainer=False,
        )
        since = mean_lags(done)[every:].reshape(-1, every).mean(0)
        after, before = float(since[1:4].mean()), float(since[-10:].mean())
        what = f"mean lag before and after an evaluation, {slots // 16} batches in flight"
        larger, smaller = (after, before) if rises else (before, after)
        yield above(
            about=f"{what}: {'rises' if rises else 'falls'}",
            source=SOURCE if rises else "an evaluation that starves the trainer",
            expected=smaller,
            simulated=larger,
            n=updates,
        )
