"""What does a run leave behind, and was nothing lost on the way?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from simulator.config import PipelineConfig
from simulator.eventlog import EventLog, Row
from simulator.ledger import Ledger, LedgerError
from simulator.pipeline import rows
from simulator.pipeline.occupancy import without_pauses

if TYPE_CHECKING:
    from simulator.pipeline.wiring import Pipeline


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run leaves behind."""

    config: PipelineConfig
    log: EventLog
    ledger: Ledger
    end_s: float
    failures: Mapping[str, int] = field(default_factory=dict)
    """How often did what go wrong?"""


def result(pipeline: Pipeline) -> Run:
    """Write down what is unfinished, and compare the ledger with what really lies where."""
    pipeline.ledger.check()
    unfinished = {
        "training": pipeline.buffer.copies.distinct(pipeline.trainer.training),
        "queued": pipeline.buffer.queued(),
        "waiting": pipeline.buffer.not_queued(),
        "in_flight": pipeline.fleet.running(),
    }
    for state, ids in unfinished.items():
        found = (len(ids), pipeline.buffer.tokens(ids))
        if found != (pipeline.ledger.rollouts[state], pipeline.ledger.tokens[state]):
            raise LedgerError(
                f"{found} rollouts and tokens are {state}, but the ledger says {pipeline.ledger}"
            )
        taken_s = pipeline.trainer.taken_s if state == "training" else math.nan
        pipeline.journal.fate(ids, state, consumed_s=taken_s, complete=state in ("training", "queued"))
    if pipeline.validation is not None:
        pipeline.validation.close(pipeline.ledger)
    rows.write(pipeline.journal)
    pipeline.journal.published(None)
    _close_occupancies(pipeline)
    return Run(
        config=pipeline.config,
        log=pipeline.recorder.log(),
        ledger=pipeline.ledger,
        end_s=pipeline.env.now,
        failures=pipeline.failing.counts(),
    )


def _close_occupancies(pipeline: Pipeline) -> None:
    now_s = pipeline.env.now
    for engine in pipeline.engines:
        if engine.paused:
            engine.resume(now_s)
        for slot in engine.slots:
            slot.close(now_s)
    pauses = {slot.resource: engine.pauses for engine in pipeline.engines for slot in engine.slots}
    intervals = pipeline.recorder.intervals
    if any(engine.pauses for engine in pipeline.engines):
        cut: list[Row] = []
        for row in intervals:
            cut += without_pauses([row], pauses.get(row[0], ()))
        intervals[:] = cut
