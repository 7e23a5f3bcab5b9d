"""Six measured runs of Qwen3-8B: the staleness that Applied Compute reports, and what they predicted.

References:
    Dong, Goel, Yu, "Staleness in asynchronous RL", Applied Compute, July 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scipy.optimize import brentq

from simulator import theory
from simulator.validation.pipelines import lags_by_update, loaded, lognormal
from simulator.validation.row import Row, within
from simulator.validation.steady import batch_means

SOURCE: Final = "Applied Compute, July 2026"
GROUP: Final = 8
RUNS: Final = (
    # C, B, q, rho, M_tail, measured mean lag in batches
    (120, 240, 2, 0.63, 1.42, 1.26),
    (240, 120, 2, 0.92, 1.43, 3.59),
    (128, 128, 2, 1.07, 1.44, 3.09),
    (240, 120, 1, 0.86, 1.42, 3.40),
    (120, 120, 1, 0.67, 1.42, 1.92),
    (128, 128, 1, 1.14, 1.45, 2.01),
)


def measured_rows() -> Iterator[Row]:
    """Lengths are lognormal with the published tail ratio; training time follows from rho; the push costs
    nothing; a full queue drops its oldest. Nothing is fitted to the staleness."""
    for slots, batch, queue, rho, tail, measured in RUNS:
        done = loaded(
            lognormal(sigma_of_tail(tail)),
            slots=slots,
            batch=batch,
            rho=rho,
            updates=1500,
            group_size=GROUP,
            queue_capacity_rollouts=queue * batch,
        )
        mean, half_width = batch_means(lags_by_update(done))
        yield within(
            0.12,
            about=f"mean lag, C {slots}, B {batch}, queue {queue} B, rho {rho:g}",
            source=SOURCE,
            expected=measured,
            simulated=mean,
            half_width=half_width,
            n=1500,
        )


def sigma_of_tail(ratio: float) -> float:
    """The lognormal whose longest of eight is `ratio` times its mean."""
    return float(brentq(lambda sigma: theory.tail_ratio_lognormal(GROUP, sigma) - ratio, 0.01, 2.0))
