"""What would another estimator have learned from the very same traffic? A recorded schedule, replayed.

Same rollouts, same versions, same order; what is said comes from the new learner's own weights. A run's
schedule does not depend on what its model says, so a replay under the recorded estimator gives the recorded
run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from simulator.config import PipelineConfig
from simulator.eventlog import EventLog
from simulator.lab.student import Learned, Student
from simulator.lab.traffic import Part, Traffic


def recorded_traffic(log: EventLog, config: PipelineConfig) -> Iterator[Traffic]:
    """The updates of a recorded run, in order.

    Args:
        log: of any run, simulated or real.
        config: what it ran under: which update was the first of its batch.

    Raises:
        ValueError: a group that was padded by repetition, or trained rollouts without segments.
    """
    rollouts = log.rollouts.to_pandas()
    trained = rollouts[rollouts["status"] == "trained"]
    parts = _parts(log.segments.to_pandas())
    expected = dict(zip(log.updates["version"].to_pylist(), log.updates["rollouts"].to_pylist(), strict=True))
    for version, rows in trained.groupby("consumed_version", sort=True):
        if len(rows) != config.rollouts_per_update or len(rows) != expected[int(version) + 1]:
            raise ValueError(
                f"update {int(version) + 1} trained on {len(rows)} rollouts of {config.rollouts_per_update}:"
                " groups padded by repetition cannot be replayed"
            )
        ids = rows["rollout_id"].to_numpy(np.int64, copy=True)
        missing = [int(i) for i in ids if int(i) not in parts]
        if missing:
            raise ValueError(f"rollouts {missing[:5]} were trained and have no segments")
        yield Traffic(
            version=int(version),
            index_in_batch=int(version) % config.updates_per_batch,
            rollout_ids=ids,
            prompt_ids=rows["prompt_id"].to_numpy(np.int64, copy=True),
            group_ids=rows["group_id"].to_numpy(np.int64, copy=True),
            length_tokens=rows["action_tokens"].astype(int).tolist(),
            parts=[parts[int(i)] for i in ids],
        )


def pushed_versions(log: EventLog) -> set[int]:
    """Versions that engines held: of updates published at one time, the last."""
    updates = log.updates.to_pandas().dropna(subset=["published_s"])
    return set(updates.groupby("published_s")["version"].max().tolist())


def replay(student: Student, log: EventLog, *, progress: Callable[[int], None] | None = None) -> EventLog:
    """The recorded log with this student's rewards and metrics in place of what was measured then."""
    config, pushed = student.config.pipeline, pushed_versions(log)
    rewards: dict[int, float] = {}
    learned: dict[int, Learned] = {}
    for traffic in recorded_traffic(log, config):
        now = learned[traffic.version + 1] = student.learn(traffic)
        rewards.update(zip(traffic.rollout_ids.tolist(), now.rewards, strict=True))
        if traffic.version + 1 in pushed:
            student.publish(traffic.version + 1)
        if progress is not None:
            progress(traffic.version + 1)
    return dataclasses.replace(
        log, rollouts=_rewarded(log.rollouts, rewards), updates=_measured(log.updates, learned)
    )


def _parts(segments: pd.DataFrame) -> dict[int, list[Part]]:
    parts: dict[int, list[Part]] = {}
    ordered = segments.sort_values(["rollout_id", "start_token"], kind="stable")
    columns = (ordered[name].tolist() for name in ("rollout_id", "version", "start_token"))
    for rollout, version, start in zip(*columns, strict=True):
        parts.setdefault(rollout, []).append(Part(version, start))
    return parts


def _rewarded(rollouts: pa.Table, rewards: dict[int, float]) -> pa.Table:
    column = [rewards.get(rollout) for rollout in rollouts["rollout_id"].to_pylist()]
    place = rollouts.schema.get_field_index("reward")
    return rollouts.set_column(place, "reward", pa.array(column, pa.float64(), from_pandas=True))


def _measured(updates: pa.Table, learned: dict[int, Learned]) -> pa.Table:
    from simulator.eventlog.schemas import UPDATES

    table = updates.select(UPDATES.names)
    versions = updates["version"].to_pylist()
    names = next(iter(learned.values())).metrics if learned else {}
    for name in sorted(names):
        column = [learned[v].metrics[name] if v in learned else None for v in versions]
        table = table.append_column(name, pa.array(column, pa.float64()))
    return table
