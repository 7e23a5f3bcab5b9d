"""What if every rollout were exactly k updates old? A schedule without a pipeline.

Published experiments impose the lag: data for update n is sampled by the weights of update n - k (the
starting weights while n < k). There is no clock and no barrier: the log's second is one update, its `clock`
is `imposed`, and results must say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.config import PipelineConfig
from simulator.eventlog import Recorder
from simulator.lab.student import Learned, Student
from simulator.lab.traffic import Part, Traffic
from simulator.ledger import Ledger
from simulator.pipeline.result import Run

Ints = NDArray[np.int64]


def member_lags(lag_updates: int, spread: int, group_size: int) -> Ints:
    """Lag of each member of a group: evenly from `lag_updates - spread` to `lag_updates + spread`.

    In a group of one there is nothing to spread.
    """
    if group_size == 1:
        return np.array([lag_updates])
    return lag_updates + np.rint(np.linspace(-spread, spread, group_size)).astype(np.int64)


def imposed_traffic(config: PipelineConfig, *, lag_updates: int, spread: int = 0) -> Iterator[Traffic]:
    """The rollouts of every update, each sampled exactly so many updates ago.

    Args:
        config: its sizes of batches and groups, and its number of updates.
        spread: members of a group differ by up to so many updates to either side of `lag_updates`.
    """
    rollouts, size = config.rollouts_per_update, config.group_size
    lags = np.tile(member_lags(lag_updates, spread, size), rollouts // size)
    for update in range(config.updates):
        ids = np.arange(update * rollouts, (update + 1) * rollouts, dtype=np.int64)
        versions = np.maximum(update - lags, 0).tolist()
        # Few versions, many rollouts: those of one version share their parts.
        whole = {version: (Part(version, 0),) for version in set(versions)}
        yield Traffic(
            version=update,
            index_in_batch=update % config.updates_per_batch,
            rollout_ids=ids,
            prompt_ids=ids // size,
            group_ids=ids // size,
            length_tokens=[1] * rollouts,
            parts=[whole[version] for version in versions],
        )


def run_imposed(
    student: Student,
    *,
    first_update: int = 0,
    recalled: Callable[[int], Learned] | None = None,
    before: Callable[[Traffic], None] | None = None,
    after: Callable[[Learned], None] | None = None,
) -> Run:
    """Every update of the run, and its log.

    Args:
        first_update: earlier ones were done before this process; `recalled` says what they came to.
        before: called with each update's traffic before it is learned from.
        after: called with what each update came to.
    """
    config = student.config.pipeline
    lag_updates, spread = student.config.imposed_lag_updates or 0, student.config.imposed_lag_spread
    ledger, recorder = Ledger(), Recorder()
    for traffic in imposed_traffic(config, lag_updates=lag_updates, spread=spread):
        if traffic.version < first_update and recalled is not None:
            learned = recalled(traffic.version)
        else:
            if before is not None:
                before(traffic)
            student.sampler.forget(traffic.version - lag_updates - spread)
            learned = student.learn(traffic)
            student.publish(traffic.version + 1)
        record(recorder, traffic, learned, config.group_size)
        for tokens in learned.action_tokens:
            ledger.start(tokens, "trained")
        if after is not None:
            after(learned)
    ledger.check()
    return Run(config=config, log=recorder.log(), ledger=ledger, end_s=float(config.updates))


def record(recorder: Recorder, traffic: Traffic, learned: Learned, group_size: int) -> None:
    """One update: it begins at the second of its version and lasts one second."""
    now, rows = float(traffic.version), len(traffic)
    version = np.array([parts[0].version for parts in traffic.parts])
    began, at, tokens = version.astype(float), np.full(rows, now), np.array(learned.action_tokens)
    recorder.extend(
        "rollouts",
        {
            "rollout_id": traffic.rollout_ids,
            "prompt_id": traffic.prompt_ids,
            "group_id": traffic.group_ids,
            "member": traffic.rollout_ids % group_size,
            "engine": np.zeros(rows, np.int64),
            "submitted_s": began,
            "started_s": began,
            "finished_s": at,
            "group_ready_s": at,
            "enqueued_s": at,
            "consumed_s": at,
            "first_version": version,
            "last_version": version,
            "oldest_version": version,
            "consumed_version": np.full(rows, traffic.version),
            "action_tokens": tokens,
            "observation_tokens": np.zeros(rows, np.int64),
            "turns": np.ones(rows, np.int64),
            "reward": pa.array(np.array(learned.rewards), from_pandas=True),
            "status": ["trained"] * rows,
            "reason": [None] * rows,
        },
    )
    recorder.extend(
        "segments",
        {
            "rollout_id": traffic.rollout_ids,
            "version": version,
            "start_token": np.zeros(rows, np.int64),
            "tokens": tokens,
            "start_s": began,
            "end_s": at,
        },
    )
    recorder.add_interval(resource="trainer", state="busy", cause="policy_update", start_s=now, end_s=now + 1)
    recorder.add_update(
        learned.metrics,
        version=traffic.version + 1,
        wait_start_s=now,
        train_start_s=now,
        train_end_s=now + 1,
        published_s=now + 1,
        rollouts=rows,
        tokens=int(tokens.sum()),
    )
