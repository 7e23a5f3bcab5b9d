"""Small recorded runs, built through the event log's own schema."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.runs import Run
from simulator.eventlog import Recorder


def run_of(recorder: Recorder, **header: Any) -> Run:
    """What a recorder holds, as the analysis reads it."""
    tables = {name: table.to_pandas() for name, table in recorder.log().tables().items()}
    return Run(**{"arm": "arm", "seed": 0, "clock": "simulated", **header}, **tables)


def recorded(
    accuracy: Sequence[float] | None,
    *,
    lag: int = 0,
    step_s: float = 3600.0,
    tokens: int = 10,
    **metrics: float,
) -> Recorder:
    """A run of updates of `step_s` each: a quarter waiting, the rest training, one rollout an update.

    Every rollout is sampled by one version, `lag` updates (or as many as there were) before it is used.
    """
    recorder = Recorder()
    updates = 8 if accuracy is None else len(accuracy)
    for i in range(updates):
        begin_s, train_s, end_s = i * step_s, (i + 0.25) * step_s, (i + 1) * step_s
        version = max(0, i - lag)
        recorder.add_rollout(
            rollout_id=i,
            prompt_id=i,
            group_id=i,
            started_s=begin_s,
            finished_s=train_s,
            enqueued_s=train_s,
            consumed_s=train_s,
            first_version=version,
            last_version=version,
            oldest_version=version,
            consumed_version=i,
            action_tokens=tokens,
            status="trained",
        )
        recorder.add_segment(
            rollout_id=i, version=version, start_token=0, tokens=tokens, start_s=begin_s, end_s=train_s
        )
        seen = dict(metrics) if accuracy is None else {"accuracy": float(accuracy[i]), **metrics}
        recorder.add_update(
            seen,
            version=i + 1,
            wait_start_s=begin_s,
            train_start_s=train_s,
            train_end_s=end_s,
            published_s=end_s,
            rollouts=1,
            tokens=tokens,
        )
        for resource, state, cause, start, end in (
            ("trainer", "idle", "no_batch", begin_s, train_s),
            ("trainer", "busy", "policy_update", train_s, end_s),
            ("engine-0/slot-0", "busy", "decode", begin_s, train_s),
            ("engine-0/slot-0", "idle", "gate_closed", train_s, end_s),
        ):
            recorder.add_interval(resource=resource, state=state, cause=cause, start_s=start, end_s=end)
    return recorder


def learning_run(accuracy: Sequence[float], *, arm: str = "arm", seed: int = 0, **choices: Any) -> Run:
    return run_of(recorded(accuracy, **choices), arm=arm, seed=seed)


def updates_table(**columns: Sequence[float]) -> pd.DataFrame:
    """Updates 1, 2, ... of an hour each, with these metrics."""
    n = len(next(iter(columns.values())))
    version = np.arange(1, n + 1)
    return pd.DataFrame({"version": version, "train_end_s": 3600.0 * version, "tokens": 10, **columns})


def outcome_rows(arm: str, metric: str, values: Sequence[Any], hours: float = 10.0) -> pd.DataFrame:
    """Outcomes of one arm, seeds 0, 1, ..."""
    return pd.DataFrame({"arm": arm, "seed": range(len(values)), metric: list(values), "hours": hours})
