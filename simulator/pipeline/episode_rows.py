"""Columns of the log about what a rollout did besides decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from simulator.pipeline.pieces import column
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import Floats, Ints


def judged_s(table: Rollouts, ids: Ints, finished_s: Floats) -> Floats:
    """When the rewards of these rollouts were known."""
    reward_s = [table.courses[i].episode.reward_s for i in ids.tolist()]
    return np.asarray(finished_s + np.array(reward_s, dtype=np.float64))


def columns(
    table: Rollouts, ids: Ints, *, started_s: Floats, finished_s: Floats, decoded_s: Floats
) -> dict[str, Any]:
    """In place of those of rollouts without environments, and those that only these have.

    Args:
        ids: of the rollouts.
        started_s, finished_s: NaN where it has not.
        decoded_s: seconds in a slot.
    """
    courses = [table.courses[i] for i in ids.tolist()]
    submitted_s = np.array([course.submitted_s for course in courses])
    environment_s = np.array([course.episode.environment_s for course in courses])
    environment_s[np.isnan(finished_s)] = np.nan
    engine = column(table.engine)[ids].astype(np.int64)
    # Differences of times carry rounding errors, and none of these may be negative.
    slot_wait_s = np.maximum(finished_s - submitted_s - environment_s - decoded_s, 0.0)
    slot_wait_s[slot_wait_s < 1e-9 * finished_s] = 0.0
    return {
        "engine": pa.array(engine, mask=engine < 0),
        "submitted_s": submitted_s,
        "started_s": _nullable(started_s),
        "observation_tokens": np.array([table.observed_tokens[i] for i in ids.tolist()], dtype=np.int64),
        "turns": np.array([course.turn + 1 for course in courses], dtype=np.int64) * (engine >= 0),
        "environment_s": _nullable(environment_s),
        "slot_wait_s": _nullable(slot_wait_s),
        "judged_s": _nullable(judged_s(table, ids, finished_s)),
    }


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
