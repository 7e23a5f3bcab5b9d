"""Which columns have the four tables, in which types and units?

Times are seconds since the run began: simulated seconds in `simulator`, wall-clock seconds in `full_runs`.
Versions count optimizer updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

_ID, _COUNT, TIME, _TEXT = pa.int64(), pa.int64(), pa.float64(), pa.string()

ROLLOUTS: Final = pa.schema(
    {
        "rollout_id": _ID,
        "prompt_id": _ID,
        "group_id": _ID,
        "member": _COUNT,  # its place in the group, from 0
        "engine": _ID,  # the engine that sampled it
        "submitted_s": TIME,  # asked for: the admission rule let it in
        "started_s": TIME,  # got a slot: decoding began
        "finished_s": TIME,
        "group_ready_s": TIME,  # the slowest member of its group finished
        "enqueued_s": TIME,  # entered the trainer's queue
        "consumed_s": TIME,  # the trainer took it, or a rule dropped it
        "first_version": _COUNT,
        "last_version": _COUNT,
        "oldest_version": _COUNT,
        "consumed_version": _COUNT,  # trainer's, when training on it started, at the drop, or at the request
        "action_tokens": _COUNT,  # while in flight: the whole length that it will have
        "observation_tokens": _COUNT,
        "turns": _COUNT,
        "reward": TIME,
        # trained | dropped | training | queued | waiting (for its group) | in_flight | validation
        "status": _TEXT,
        "reason": _TEXT,  # why it was dropped; a padded group has fewer trained rows than members
    }
)
EPISODES: Final = pa.schema(
    {
        "environment_s": TIME,  # waiting for the environment to start and to work, before the last token
        "slot_wait_s": TIME,  # waiting for a slot; decoding is finished_s - submitted_s less these two
        "judged_s": TIME,  # its reward was known
    }
)
"""More columns of `rollouts` where these have environments; null for what did not finish."""
SEGMENTS: Final = pa.schema(
    {
        "rollout_id": _ID,
        "version": _COUNT,
        "start_token": _COUNT,
        "tokens": _COUNT,
        "start_s": TIME,
        "end_s": TIME,
    }
)
UPDATES: Final = pa.schema(
    {
        "version": _COUNT,  # the version that this update produced
        "wait_start_s": TIME,  # the trainer began to wait for data
        "train_start_s": TIME,
        "train_end_s": TIME,
        "published_s": TIME,  # engines hold it; null if never pushed
        "rollouts": _COUNT,
        "tokens": _COUNT,
    }
)
INTERVALS: Final = pa.schema(
    {
        "resource": _TEXT,  # trainer, engine-0/slot-3, ...
        "state": _TEXT,  # busy | idle
        "cause": _TEXT,  # policy_update, critic_update, push, no_batch, decode, gate_closed, ...
        "start_s": TIME,
        "end_s": TIME,
    }
)
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "rollouts": ROLLOUTS,
    "segments": SEGMENTS,
    "updates": UPDATES,
    "intervals": INTERVALS,
}
