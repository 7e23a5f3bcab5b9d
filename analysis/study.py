"""What do all runs of a study come to? One pass over the runs, one run in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from analysis.measures.collapse import Criteria
from analysis.measures.compute import compute_hours
from analysis.measures.lag import of_status
from analysis.measures.lag_split import lag_split
from analysis.measures.outcomes import check_seeds, idle_shares, outcomes
from analysis.runs import Run


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """The tables that figures and verdicts are made of."""

    outcomes: pd.DataFrame
    """One row a run; the factors that its arm was made by are columns like any other."""
    updates: pd.DataFrame
    """The runs' updates one under the other, with arm, seed and compute_hours (until the update's end)."""
    lags: pd.DataFrame
    """arm, lag (updates, of a trained rollout's oldest token), rollouts, over all seeds of the arm."""
    idle: pd.DataFrame
    """arm, kind (trainer, engines), cause, idle: mean share over the arm's seeds."""
    criteria: Criteria
    factors: tuple[str, ...] = ()
    """Names of the columns of `outcomes` that were set, not measured."""


def summarise(
    runs: Iterable[Run],
    criteria: Criteria,
    *,
    arms: Sequence[str] = (),
    factors: Mapping[str, Mapping[str, Any]] | None = None,
) -> Study:
    """Reduce runs to the tables of a study; each is read once and let go.

    Args:
        arms: the order of arms in every table; arms it does not name follow in the order of the runs.
        factors: by arm, what it was made by, such as its estimator and its learning rate.

    Raises:
        ValueError: if there is no run, an arm has a seed twice, or a factor would replace an outcome.
    """
    rows: list[dict[str, object]] = []
    updates: list[pd.DataFrame] = []
    lags: list[pd.DataFrame] = []
    idles: list[pd.DataFrame] = []
    for run in runs:
        split = lag_split(run.rollouts, run.updates)
        rows.append(outcomes(run, criteria, split=split))
        spent = compute_hours(run, run.updates["train_end_s"].to_numpy(dtype=float))
        updates.append(run.updates.assign(arm=run.arm, seed=run.seed, compute_hours=spent))
        lags.append(_lag_counts(run.arm, split))
        idles.append(idle_shares(run).assign(arm=run.arm))
    if not rows:
        raise ValueError("a study without runs has nothing to say")
    table = pd.DataFrame(rows)
    check_seeds(table)
    table = with_factors(table, factors or {})
    order = list(dict.fromkeys([*arms, *table["arm"]]))
    return Study(
        outcomes=_in_order(table, order),
        updates=_in_order(pd.concat(updates), order),
        lags=_in_order(pd.concat(lags).groupby(["arm", "lag"])["rollouts"].sum().reset_index(), order),
        idle=_in_order(_mean_idle(pd.concat(idles), table["arm"].value_counts()), order),
        criteria=criteria,
        factors=tuple(dict.fromkeys(name for own in (factors or {}).values() for name in own)),
    )


def with_factors(outcomes: pd.DataFrame, factors: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Outcomes with one more column a factor; an arm that a factor does not name has none of it.

    Raises:
        ValueError: a factor has the name of an outcome and other values than came out.
    """
    columns: dict[str, pd.Series[Any]] = {}
    for name in dict.fromkeys(name for own in factors.values() for name in own):
        values = outcomes["arm"].map({arm: own[name] for arm, own in factors.items() if name in own})
        if name not in outcomes.columns:
            columns[name] = values
        elif not (outcomes[name] == values).all():
            raise ValueError(f"factor {name!r} has the name of an outcome, and is not what came out")
    return pd.concat([outcomes, pd.DataFrame(columns, index=outcomes.index)], axis=1)


def _in_order(table: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    place = table["arm"].map({arm: i for i, arm in enumerate(arms)})
    return table.iloc[np.argsort(place.to_numpy(), kind="stable")].reset_index(drop=True)


def _lag_counts(arm: str, split: pd.DataFrame) -> pd.DataFrame:
    trained = of_status(split, ("trained",))
    lag, rollouts = np.unique(trained["lag"].to_numpy(dtype=np.int64), return_counts=True)
    return pd.DataFrame({"arm": arm, "lag": lag, "rollouts": rollouts})


def _mean_idle(idles: pd.DataFrame, seeds: pd.Series[int]) -> pd.DataFrame:
    # A cause that a seed never met is 0 there, so the sum is divided by all seeds of the arm.
    total = idles.groupby(["arm", "kind", "cause"], sort=False)["idle"].sum().reset_index()
    total["idle"] /= total["arm"].map(seeds)
    return total
