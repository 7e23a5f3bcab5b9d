"""A run folder of ours as a part of a log: what the learner measured, lag and idleness."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.audit.columns import COLUMNS
from analysis.audit.log import Source, Strange
from analysis.audit.reading.file import Part
from analysis.audit.reading.series import Spell
from analysis.audit.reading.tokens import TokenSums
from analysis.audit.systems.plain import POLICYLAG
from analysis.measures.idle import shares
from analysis.measures.lag import rollout_lags
from analysis.runs import Run, load_run
from simulator.eventlog import SCHEMAS


def read_run(folder: Path) -> Part:
    """Read one run folder."""
    run = load_run(folder)
    measured = {theirs: ours for theirs, ours in POLICYLAG.metrics.items() if theirs in run.updates.columns}
    table = run.updates[list(measured)].rename(columns=measured)
    table.insert(0, "update", run.updates["version"].astype(float))
    table = table.merge(_by_update(run), on="update", how="left")
    known = {*SCHEMAS["updates"].names, *measured}
    numeric = run.updates.select_dtypes("number").columns
    return Part(
        system=POLICYLAG,
        updates=table[[name for name in table.columns if name in COLUMNS]],
        tokens=TokenSums().table(),
        strange=Strange(not_finite=_not_finite(table)),
        source=Source(
            path=folder,
            what="run folder of PolicyLag",
            records=len(run.updates),
            counted_by="version",
            unknown=tuple(sorted(set(map(str, numeric)) - known)),
        ),
    )


def _by_update(run: Run) -> pd.DataFrame:
    """One row an update: the oldest tokens' lag, lengths of what was trained and of all, drops, idleness."""
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
    found = found.reset_index()
    if run.clock == "imposed":
        return found  # its seconds are no seconds
    idle = pd.DataFrame(
        [(update, *_idle(run, window)) for update, window in _windows(run)],
        columns=["update", "trainer_idle_share", "engine_idle_share"],
    )
    return found.merge(idle, on="update", how="outer")


def _without_signal(trained: pd.DataFrame) -> pd.Series[float]:
    """Share of the groups of each update, of more than one member, whose rewards are all equal."""
    groups = trained.groupby(["update", "group_id"])["reward"].agg(["count", "nunique"])
    groups = groups.loc[groups["count"] > 1]
    return (groups["nunique"] == 1).astype(float).groupby("update").mean()


def _windows(run: Run) -> list[tuple[float, tuple[float, float]]]:
    """Some stretches of the run, by the last update of each: one step is too short for a share."""
    number = min(20, max(1, len(run.updates) // 4))
    edges = np.linspace(0, len(run.updates), number + 1).astype(int)
    found = []
    for begin, end in pairwise(edges):
        piece = run.updates.iloc[begin:end]
        window = (float(piece["wait_start_s"].iloc[0]), float(piece["train_end_s"].iloc[-1]))
        if window[1] > window[0]:
            found.append((float(piece["version"].iloc[-1]), window))
    return found


def _idle(run: Run, window: tuple[float, float]) -> tuple[float, float]:
    table = shares(run.intervals, window)
    is_trainer = table["resource"] == "trainer"
    return float(table.loc[is_trainer, "idle"].mean()), float(table.loc[~is_trainer, "idle"].mean())


def _not_finite(table: pd.DataFrame) -> dict[str, Spell]:
    """Infinities anywhere; NaN only in loss and gradient norm, which every update has if any has."""
    found = {}
    for name in table.columns:
        values = table[name].to_numpy(dtype=float)
        wrong = np.isinf(values)
        if name in ("loss", "grad_norm") and np.isfinite(values).any():
            wrong |= np.isnan(values)
        if wrong.any():
            at = table["update"].to_numpy(dtype=float)[wrong]
            found[str(name)] = Spell(count=int(wrong.sum()), first=float(at.min()), last=float(at.max()))
    return found
