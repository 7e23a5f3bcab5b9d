"""Every comparison, in the order in which they are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from simulator.validation import (
    applied_compute,
    barriers,
    consequences,
    delays,
    evaluation,
    gates,
    lags,
    nemo,
    trinity,
    verl_async,
)
from simulator.validation.row import Row

CHECKS: Final[tuple[Callable[[], Iterator[Row]], ...]] = (
    lags.little,
    lags.closed_form,
    lags.constant_lengths,
    lags.token_weighted,
    lags.saturated_throughput,
    barriers.order_statistics,
    barriers.waits_for_the_trainer,
    barriers.waits_for_a_slot,
    gates.aggregate_gate,
    gates.drops,
    consequences.first_batches,
    consequences.queue_capacity,
    consequences.starvation,
    consequences.prefixes_again,
    evaluation.evaluation_transient,
    delays.staleness_rule,
    applied_compute.measured_rows,
    verl_async.verl_asynchronous,
    trinity.trinity_gsm8k,
    trinity.trinity_alfworld,
    nemo.nemo_one_off,
)


def rows_of(index: int) -> list[Row]:
    """The rows of one check: what a worker process is asked for."""
    return list(CHECKS[index]())
