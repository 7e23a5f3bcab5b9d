"""How loaded was the pipeline, and how old does the closed form expect its data to be?

All is read off the log, after the updates in which the pipeline fills: C, rollouts that decode on average;
B, rollouts that the trainer takes at once; rho, rollouts that finish in the time that the trainer is busy
with as many; M, how much longer the longest of a group takes than the mean. The closed form
(`simulator.theory.mean_lag`) assumes that slots are always busy and that nothing bounds the lag; where a
rule holds rollouts back, C and rho are what is left of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.idle import union_s
from analysis.measures.lag_split import PARTS
from analysis.runs import Run
from simulator import theory

FILLING: Final = 0.25
"""Share of the updates in which the pipeline fills, and which are left out (*choice*)."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the closed form needs to know of a run."""

    slots: float
    """C, on average over time."""
    batch_rollouts: float
    """B."""
    updates_per_batch: float
    rho: float
    group_ratio: float
    """M, of independent members; 1 without groups."""
    queue_batches: float | None
    """Capacity of a queue that drops its oldest, over B; None without one."""


def load(run: Run) -> Load | None:
    """The load of a settled run; None where lag was imposed, or the log is too short to tell."""
    window_s = settled_s(run)
    if window_s is None:
        return None
    own = run.rollouts.loc[run.rollouts["status"] != "validation"]
    started_s, finished_s, consumed_s = (
        own[name].to_numpy(dtype=float) for name in ("started_s", "finished_s", "consumed_s")
    )
    trained = (own["status"] == "trained").to_numpy()
    batches = min(len(run.updates), len(np.unique(consumed_s[trained])))
    updates_per_batch = round(len(run.updates) / batches) if batches else 0
    durations_s = finished_s - started_s
    durations_s = durations_s[np.isfinite(durations_s)]
    within = int(_inside(consumed_s[trained], window_s).sum())
    busy = run.intervals.loc[(run.intervals["resource"] == "trainer") & (run.intervals["state"] == "busy")]
    if not (within and updates_per_batch and len(durations_s) and durations_s.max() > 0 and len(busy)):
        return None
    busy_s = union_s(busy[["start_s", "end_s"]].to_numpy(dtype=float), window_s)
    length_s = window_s[1] - window_s[0]
    # One that was dropped while it decoded left its slot then; one in flight has it still.
    left_s = np.where(np.isnan(finished_s), consumed_s, finished_s)
    left_s = np.where(np.isnan(left_s), np.inf, left_s)
    held_s = np.minimum(left_s, window_s[1]) - np.maximum(started_s, window_s[0])
    batch = int(trained.sum()) / len(run.updates) * updates_per_batch
    pipeline = run.config.get("pipeline", run.config)
    drops = pipeline.get("queue_full", "drop_oldest") == "drop_oldest"
    capacity = pipeline.get("queue_capacity_rollouts") if drops else None
    return Load(
        slots=float(np.nansum(np.maximum(held_s, 0.0))) / length_s,
        batch_rollouts=batch,
        updates_per_batch=updates_per_batch,
        rho=int(_inside(finished_s, window_s).sum()) / length_s * busy_s / within,
        group_ratio=_group_ratio(own["group_id"], durations_s),
        queue_batches=None if capacity is None else capacity / batch,
    )


def settled_s(run: Run) -> tuple[float, float] | None:
    """From the end of the filling to that of the last update, in seconds; None if lag was imposed."""
    ends_s = np.sort(run.updates["train_end_s"].to_numpy(dtype=float))
    first = math.ceil(FILLING * len(ends_s))
    if run.clock == "imposed" or first < 1 or not ends_s[-1] > ends_s[first - 1]:
        return None
    return float(ends_s[first - 1]), float(ends_s[-1])


def predicted(found: Load) -> dict[str, float]:
    """Mean lag in updates by part (`lag_split.PARTS`), and `lag`, their sum.

    The j-th update of a batch adds j, which the closed form in batches does not know. NaN where the trainer
    is the bottleneck and the queue has no end.
    """
    per_batch = found.updates_per_batch
    try:
        whole, single, queue = (
            theory.mean_lag(
                slots, found.batch_rollouts, found.rho, group_ratio=ratio, queue_batches=found.queue_batches
            )
            for slots, ratio in ((found.slots, found.group_ratio), (found.slots, 1.0), (0.0, 1.0))
        )
    except ValueError:
        return dict.fromkeys([*PARTS, "lag"], math.nan)
    parts = {
        "generation": per_batch * (single - queue),
        "group_wait": per_batch * (whole - single),
        "queue": per_batch * queue,
        "trainer_ahead": (per_batch - 1) / 2,
    }
    return parts | {"lag": sum(parts.values())}


def settled(run: Run, split: pd.DataFrame) -> dict[str, float]:
    """The same as `predicted`, as it came out: means over rollouts trained on after the filling.

    Args:
        split: of the run, from `lag_split.lag_split`.
    """
    window_s = settled_s(run)
    if window_s is None:
        return dict.fromkeys([*PARTS, "lag"], math.nan)
    inside = _inside(run.rollouts["consumed_s"].to_numpy(dtype=float), window_s)
    settled_ids = run.rollouts["rollout_id"].to_numpy()[inside]
    own = split.loc[(split["status"] == "trained") & split["rollout_id"].isin(settled_ids)]
    return {name: float(own[name].mean()) if len(own) else math.nan for name in (*PARTS, "lag")}


def load_outcomes(run: Run, split: pd.DataFrame) -> dict[str, float]:
    """`rho`, `slots_per_batch`, `group_ratio`, `queue_batches`, `updates_per_batch`, and the mean lags
    `predicted_lag` and `settled_lag` with their parts, such as `predicted_lag_queue`; NaN if not known."""
    found = load(run)
    means = {"predicted": predicted(found) if found else {}, "settled": settled(run, split) if found else {}}
    return {
        "rho": found.rho if found else math.nan,
        "slots_per_batch": found.slots / found.batch_rollouts if found else math.nan,
        "group_ratio": found.group_ratio if found else math.nan,
        "queue_batches": math.nan if found is None or found.queue_batches is None else found.queue_batches,
        "updates_per_batch": found.updates_per_batch if found else math.nan,
        **{
            f"{who}_{'lag' if part == 'lag' else f'lag_{part}'}": own.get(part, math.nan)
            for who, own in means.items()
            for part in ("lag", *PARTS)
        },
    }


def _inside(times_s: NDArray[np.float64], window_s: tuple[float, float]) -> NDArray[np.bool_]:
    return np.asarray((times_s > window_s[0]) & (times_s <= window_s[1]))


def _group_ratio(groups: pd.Series[int], durations_s: NDArray[np.float64]) -> float:
    size = int(groups.value_counts().max())
    ordered = np.sort(durations_s)

    def quantile(share: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(ordered[np.minimum((share * len(ordered)).astype(np.int64), len(ordered) - 1)])

    return theory.tail_ratio(size, quantile, points=20_000) if size > 1 else 1.0
