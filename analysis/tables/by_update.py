"""What is known of each update of a run, under the names that all logs share?"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from analysis.measures.idle import shares
from analysis.measures.lag import rollout_lags
from analysis.runs import Run
from analysis.systems.columns import KNOWN
from analysis.systems.plain import POLICYLAG

_WINDOWS: Final = 20
"""Stretches of a run that have a share of idleness: one step is too short for one. *Choice*."""


def by_update(run: Run) -> pd.DataFrame:
    """One row an update, in order: `update`, and what `analysis.systems.columns` names; NaN if not measured.

    Lag is in updates: its mean is over tokens where the learner measured it, else over rollouts; its maximum
    is that of each rollout's oldest token. Idleness has a value at the last update of each of some stretches.
    """
    measured = {theirs: ours for theirs, ours in POLICYLAG.metrics.items() if theirs in run.updates.columns}
    table = run.updates[list(measured)].rename(columns=measured).astype(float)
    table.insert(0, "update", run.updates["version"].astype(float))
    table = table.merge(_of_rollouts(run), on="update", how="left")
    if run.clock != "imposed":  # whose seconds are no seconds
        table = table.merge(_of_time(run), on="update", how="left")
    return table[[name for name in table.columns if name in KNOWN]]


def _of_rollouts(run: Run) -> pd.DataFrame:
    """The oldest tokens' lag, lengths of what was trained and of all, drops, groups without a signal."""
    rollouts = run.rollouts.loc[run.rollouts["consumed_version"].notna()].copy()
    lags = rollout_lags(run.rollouts, run.segments).set_index("rollout_id")
    rollouts["oldest"] = rollouts["rollout_id"].map(lags["oldest"])
    rollouts["mean"] = rollouts["rollout_id"].map(lags["mean"])
    rollouts["update"] = rollouts["consumed_version"].astype(float) + 1
    trained = rollouts.loc[rollouts["status"] == "trained"].groupby("update")
    offered = rollouts.loc[rollouts["status"].isin(["trained", "dropped"])].groupby("update")
    found = pd.DataFrame(
        {
            "lag_max": trained["oldest"].max(),
            "response_length_mean": trained["action_tokens"].mean(),
            "rollouts": trained["rollout_id"].count(),
            "response_length_generated_mean": offered["action_tokens"].mean(),
            "dropped_share": offered["status"].agg(lambda status: float((status == "dropped").mean())),
        }
    )
    if "token_lag" not in run.updates.columns:
        found["lag_mean"] = trained["mean"].mean()
    if not (run.rollouts["status"] == "dropped").any():
        found = found.drop(columns=["response_length_generated_mean", "dropped_share"])
    found["zero_variance_share"] = _without_signal(rollouts.loc[rollouts["status"] == "trained"])
    return found.reset_index().astype({"update": float})


def _without_signal(trained: pd.DataFrame) -> pd.Series[float]:
    """Share of the groups of each update, of more than one member, whose rewards are all equal."""
    groups = trained.groupby(["update", "group_id"])["reward"].agg(["count", "nunique"])
    groups = groups.loc[groups["count"] > 1]
    return (groups["nunique"] == 1).astype(float).groupby("update").mean()


def _of_time(run: Run) -> pd.DataFrame:
    """Seconds of each step and of the trainer's wait in it; shares of idleness by stretch."""
    steps = pd.DataFrame(
        {
            "update": run.updates["version"].astype(float),
            "step_s": run.updates["train_end_s"] - run.updates["wait_start_s"],
            "trainer_wait_s": run.updates["train_start_s"] - run.updates["wait_start_s"],
        }
    )
    idle = pd.DataFrame(
        [(update, *_idle(run, window)) for update, window in _windows(run)],
        columns=["update", "trainer_idle_share", "engine_idle_share"],
        dtype=float,
    )
    return steps.merge(idle, on="update", how="left")


def _windows(run: Run) -> list[tuple[float, tuple[float, float]]]:
    """Some stretches of the run, by the last update of each."""
    number = min(_WINDOWS, max(1, len(run.updates) // 4))
    edges = np.linspace(0, len(run.updates), number + 1).astype(int)
    found = []
    for begin, end in pairwise(edges):
        piece = run.updates.iloc[begin:end]
        if not len(piece):
            continue
        window = (float(piece["wait_start_s"].iloc[0]), float(piece["train_end_s"].iloc[-1]))
        if window[1] > window[0]:
            found.append((float(piece["version"].iloc[-1]), window))
    return found


def _idle(run: Run, window: tuple[float, float]) -> tuple[float, float]:
    table = shares(run.intervals, window)
    is_trainer = table["resource"] == "trainer"
    return float(table.loc[is_trainer, "idle"].mean()), float(table.loc[~is_trainer, "idle"].mean())
