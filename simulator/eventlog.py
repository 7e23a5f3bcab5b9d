"""What happened, and when: the one vocabulary that simulated and real runs both write.

Four columnar tables, kept as Parquet beside a run's `config.json` and `meta.json`. Times are seconds
since the run began: simulated seconds in `simulator`, wall-clock seconds in `full_runs`. Versions
count optimizer updates. This module imports neither SimPy nor torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

import pyarrow as pa
import pyarrow.parquet as pq

_ID, _COUNT, _TIME, _TEXT = pa.int64(), pa.int64(), pa.float64(), pa.string()

ROLLOUTS: Final = pa.schema(
    {
        "rollout_id": _ID,
        "prompt_id": _ID,
        "group_id": _ID,
        "submitted_s": _TIME,  # asked for: the admission rule let it in
        "started_s": _TIME,  # got a slot: decoding began
        "finished_s": _TIME,
        "group_ready_s": _TIME,  # the slowest member of its group finished
        "enqueued_s": _TIME,  # entered the trainer's queue
        "consumed_s": _TIME,  # the trainer took it, or a rule dropped it
        "first_version": _COUNT,
        "last_version": _COUNT,
        "oldest_version": _COUNT,
        "consumed_version": _COUNT,  # trainer's version when training on it started
        "action_tokens": _COUNT,
        "observation_tokens": _COUNT,
        "turns": _COUNT,
        "reward": _TIME,
        "status": _TEXT,  # trained | dropped | queued | in_flight
        "reason": _TEXT,  # why it was dropped
    }
)
SEGMENTS: Final = pa.schema(
    {
        "rollout_id": _ID,
        "version": _COUNT,
        "start_token": _COUNT,
        "tokens": _COUNT,
        "start_s": _TIME,
        "end_s": _TIME,
    }
)
UPDATES: Final = pa.schema(
    {
        "version": _COUNT,  # the version that this update produced
        "wait_start_s": _TIME,  # the trainer began to wait for data
        "train_start_s": _TIME,
        "train_end_s": _TIME,
        "published_s": _TIME,  # engines hold it; null if never pushed
        "rollouts": _COUNT,
        "tokens": _COUNT,
    }
)
INTERVALS: Final = pa.schema(
    {
        "resource": _TEXT,  # trainer, engine-0, ...
        "state": _TEXT,  # busy | idle
        "cause": _TEXT,  # policy_update, critic_update, push, no_batch, gate_closed, ...
        "start_s": _TIME,
        "end_s": _TIME,
    }
)
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "rollouts": ROLLOUTS,
    "segments": SEGMENTS,
    "updates": UPDATES,
    "intervals": INTERVALS,
}
