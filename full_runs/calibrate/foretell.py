"""What does the simulator say of a part of a run, and what was it really like?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd

from analysis.measures.idle import shares
from analysis.measures.lag import token_lags
from analysis.runs import Run, from_log
from full_runs.calibrate.fit import Part
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run as simulate

MEASURES: Final[Mapping[str, str]] = {
    "updates_per_hour": "updates an hour",
    "tokens_per_s": "tokens trained a second",
    "mean_lag": "lag, mean over trained tokens (updates)",
    "trainer_idle": "trainer idle (share of its time)",
    "empty_slots": "slots without a rollout (share of their time)",
}
SHARES: Final = ("trainer_idle", "empty_slots")
"""Compared by their difference: 1 % against 2 % is no error of half."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure of one part of one run."""

    run: str
    measure: str
    measured: float
    foretold: float

    @property
    def error(self) -> float:
        """Of a share, foretold - measured; of anything else, foretold / measured - 1."""
        if self.measure in SHARES:
            return self.foretold - self.measured
        return self.foretold / self.measured - 1 if self.measured else float("nan")


def measures(run: Run, part: Part, *, slots: int) -> dict[str, float]:
    """The `MEASURES` of a part of a run."""
    updates = run.updates.loc[(run.updates["version"] > part.after) & (run.updates["version"] <= part.until)]
    seconds = part.end_s - part.start_s
    lags = token_lags(run.rollouts, run.segments)
    consumed = run.rollouts.set_index("rollout_id")["consumed_version"].reindex(lags["rollout_id"]).to_numpy()
    own = (lags["status"] == "trained").to_numpy() & (consumed >= part.after) & (consumed < part.until)
    trainer = shares(run.intervals.loc[run.intervals["resource"] == "trainer"], (part.start_s, part.end_s))
    return {
        "updates_per_hour": (part.until - part.after) / seconds * 3600,
        "tokens_per_s": float(updates["tokens"].sum()) / seconds,
        "mean_lag": float(np.average(lags["lag"][own], weights=lags["tokens"][own])) if own.any() else np.nan,
        "trainer_idle": float(trainer["idle"].iloc[0]),
        "empty_slots": 1 - _under_way_s(run.rollouts, part) / (slots * seconds),
    }


def _under_way_s(rollouts: pd.DataFrame, part: Part) -> float:
    """Seconds of the part that rollouts had a slot, added up, whatever was done in it.

    Not the slots' own intervals: one log calls a slot busy while a request is on its way, another does not.
    What only measures is in the log of a simulation alone.
    """
    own = rollouts.loc[rollouts["started_s"].notna() & (rollouts["status"] != "validation")]
    begun_s = own["started_s"]
    if "environment_s" in own:  # its environment was there before the engine was asked
        before_s = begun_s - own["environment_s"].fillna(0)
        begun_s = before_s.clip(lower=own["submitted_s"])
    end_s = own["finished_s"].fillna(np.inf).clip(upper=part.end_s)
    return float((end_s - begun_s.clip(lower=part.start_s)).clip(lower=0).sum())


def foretell(config: PipelineConfig, part: Part) -> dict[str, float]:
    """The same of a simulated run, over the same updates."""
    log = simulate(config).log
    run = from_log(log, arm="foretold", seed=config.seed, clock="simulated")
    ends_s = np.concatenate([[0.0], run.updates.sort_values("version")["train_end_s"].to_numpy(dtype=float)])
    same = Part(
        after=part.after,
        until=part.until,
        start_s=float(ends_s[part.after]),
        end_s=float(ends_s[part.until]),
    )
    return measures(run, same, slots=config.slots)


def compare(name: str, measured: Mapping[str, float], foretold: Mapping[str, float]) -> list[Row]:
    return [Row(run=name, measure=m, measured=measured[m], foretold=foretold[m]) for m in MEASURES]
