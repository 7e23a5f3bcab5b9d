"""What does a run come to, in the numbers that a plan is made of?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from simulator.pipeline.pipeline import Run

START_SHARE: Final = 0.25
"""Of the updates, in which the pipeline still fills, and which count for nothing."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Of one run, without its start."""

    rollouts_per_hour: float
    """Trained."""
    updates_per_hour: float
    mean_lag_updates: float
    """Of trained rollouts, from their oldest token."""
    p99_lag_updates: float
    trainer_idle: float
    """Share of the time in which the trainer waits; NaN where the same GPUs decode meanwhile."""
    slots_idle: float
    """Share of slot time without a rollout, for another reason than that the GPUs train."""
    dropped: float
    """Share of the rollouts that met the trainer, and were too old or one too many."""
    generated_tokens_per_hour: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over runs, and half the width of its 95 % interval (Student's t; NaN for one run)."""

    mean: float
    half_width: float


Numbers = dict[str, Estimate]
"""By the names of `Measured`."""


def measure(run: Run, *, colocated: bool = False) -> Measured:
    """Read the numbers off the log."""
    updates = run.log.updates
    ends_s = updates.column("train_end_s").to_numpy()
    first = int(START_SHARE * len(ends_s))
    start_s, end_s = float(ends_s[first - 1] if first else 0.0), float(ends_s[-1])
    window_s = max(end_s - start_s, 1e-12)
    rollouts = run.log.rollouts
    consumed_s = rollouts.column("consumed_s").to_numpy(zero_copy_only=False)
    version = rollouts.column("consumed_version").to_numpy(zero_copy_only=False)
    status = np.asarray(rollouts.column("status"))
    trained = (status == "trained") & (version >= first)
    dropped = (status == "dropped") & (consumed_s > start_s) & (consumed_s <= end_s)
    lag = (version - rollouts.column("oldest_version").to_numpy(zero_copy_only=False))[trained]
    trainer_s, slots_s = _idle_s(run, start_s, end_s)
    tokens = rollouts.column("action_tokens").to_numpy()[trained | dropped]
    count = int(trained.sum())
    return Measured(
        rollouts_per_hour=3600 * count / window_s,
        updates_per_hour=3600 * (len(ends_s) - first) / window_s,
        mean_lag_updates=float(lag.mean()),
        p99_lag_updates=float(np.quantile(lag, 0.99)),
        trainer_idle=math.nan if colocated else trainer_s / window_s,
        slots_idle=slots_s / window_s / run.config.slots,
        dropped=int(dropped.sum()) / max(1, count + int(dropped.sum())),
        generated_tokens_per_hour=3600 * float(tokens.sum()) / window_s,
    )


def estimates(runs: Sequence[Measured]) -> Numbers:
    """Mean and interval of each number over independent runs."""
    found: Numbers = {}
    for field in dataclasses.fields(Measured):
        values = np.array([getattr(run, field.name) for run in runs])
        half_width = math.nan
        if len(values) > 1:
            half_width = float(
                student_t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
            )
        found[field.name] = Estimate(mean=float(values.mean()), half_width=half_width)
    return found


def scaled(measured: Measured, parts: int) -> Measured:
    """Of the whole machine, from one of its `parts`: counts of rollouts and tokens, nothing else."""
    return dataclasses.replace(
        measured,
        rollouts_per_hour=parts * measured.rollouts_per_hour,
        generated_tokens_per_hour=parts * measured.generated_tokens_per_hour,
    )


def _idle_s(run: Run, start_s: float, end_s: float) -> tuple[float, float]:
    table = run.log.intervals
    idle = np.asarray(table.column("state")) == "idle"
    idle &= np.asarray(table.column("cause")) != "colocated"
    of_trainer = np.asarray(table.column("resource")) == "trainer"
    begins, ends = (table.column(name).to_numpy() for name in ("start_s", "end_s"))
    overlap: NDArray[np.float64] = np.maximum(np.minimum(ends, end_s) - np.maximum(begins, start_s), 0.0)
    return float(overlap[idle & of_trainer].sum()), float(overlap[idle & ~of_trainer].sum())
