"""Which settings does no other beat in both throughput and age?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from analysis.tables.factors import column_of
from analysis.tables.means import mean_over_seeds
from simulator.planner.frontier import frontier

_NUMBERS: Final = ("lag", "lag_low", "lag_high", "throughput", "throughput_low", "throughput_high")
COLUMNS: Final = ("name", *_NUMBERS, "n", "best")


def frontier_table(
    outcomes: pd.DataFrame, *, by: str = "arm", throughput: str = "updates_per_hour", rng: np.random.Generator
) -> pd.DataFrame:
    """One row a setting: mean lag and throughput over its runs with intervals, and whether none beats it.

    Args:
        outcomes: one row a run (`measures.outcomes`).
        by: what names a setting.
        throughput: the outcome to have much of.

    Returns:
        Columns name, lag, lag_low, lag_high, throughput, throughput_low, throughput_high, n, best.
    """
    rows: list[dict[str, object]] = []
    for name, own in outcomes.groupby(column_of(outcomes, by), sort=False):
        row: dict[str, object] = {"name": str(name)}
        for called, metric in (("lag", "mean_lag"), ("throughput", column_of(outcomes, throughput))):
            found = mean_over_seeds(own[metric], rng=rng)
            row |= {called: found["mean"], f"{called}_low": found["low"], f"{called}_high": found["high"]}
            row["n"] = int(found["n"])
        rows.append(row)
    return _judged(rows)


def plan_table(answer: Mapping[str, Any]) -> pd.DataFrame:
    """The same of a plan: one row a setting of what `policylag plan --json` wrote; rollouts an hour.

    Raises:
        ValueError: the object holds no settings: it is no plan, or only a comparison.
    """
    if not isinstance(answer.get("settings"), list):
        raise ValueError(
            f"this is no plan: it has no settings, but {', '.join(map(str, answer)) or 'nothing'}"
        )
    rows: list[dict[str, object]] = []
    for outcome in answer["settings"]:
        row: dict[str, object] = {"name": _setting_name(outcome["setting"])}
        for called, metric in (("lag", "mean_lag_updates"), ("throughput", "rollouts_per_hour")):
            mean, half = (_number(outcome["numbers"][metric][of]) for of in ("mean", "half_width"))
            row |= {called: mean, f"{called}_low": mean - half, f"{called}_high": mean + half}
        rows.append(row | {"n": int(answer["config"]["seeds"])})
    return _judged(rows)


def _judged(rows: list[dict[str, object]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=[name for name in COLUMNS if name != "best"])
    known = np.flatnonzero(np.isfinite(table[["lag", "throughput"]].to_numpy(dtype=float)).all(axis=1))
    own = table.iloc[known]
    along = frontier(own["throughput"].tolist(), own["lag"].tolist())
    return table.assign(best=np.isin(np.arange(len(table)), known[along]))


def _setting_name(setting: Mapping[str, Any]) -> str:
    """Such as `8 GPUs decode, 512 in flight, bound 4`."""
    who = "taking turns" if setting["together"] else f"{setting['rollout_gpus']} GPUs decode"
    bound = setting["bound_batches"]
    return f"{who}, {setting['in_flight']} in flight" + ("" if bound is None else f", bound {bound}")


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
