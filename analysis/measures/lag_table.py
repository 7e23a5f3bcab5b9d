"""How old was the data, by what is counted and among whom? Four weightings times the populations.

A lag belongs to a token. What a mean or a percentile of lags says depends on how tokens are weighed:

- *rollout*: every rollout counts once, its tokens share it;
- *token*: every token counts once;
- *loss token*: every token that the loss counts, so only those of trained rollouts. *Choice*: all their
  action tokens, unless the segments have a column `loss_tokens`;
- *contribution*: a loss token counts by its rollout's |A|, see `advantage_sizes`.

Where all lengths are equal the first two agree, where nothing was dropped the middle two, where all |A| are
equal the last two. Beside them stands each rollout's oldest token, by which rules decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.lag import POPULATIONS, lag_summary, of_status, rollout_lags, token_lags
from analysis.runs import Run

LEFT: Final = "left, so far"
"""Finished, and neither taken nor dropped when the run ended: what a rule that looks fresh leaves to rot."""
OLDEST: Final = "oldest token of a rollout"

Weighting: TypeAlias = Callable[[pd.DataFrame], NDArray[np.float64]]
"""From segments (see `weighed`) to a weight each."""


def by_rollout(parts: pd.DataFrame) -> NDArray[np.float64]:
    return (parts["tokens"] / parts["rollout_tokens"]).to_numpy(dtype=float)


def by_token(parts: pd.DataFrame) -> NDArray[np.float64]:
    return parts["tokens"].to_numpy(dtype=float)


def by_loss_token(parts: pd.DataFrame) -> NDArray[np.float64]:
    return parts["loss_tokens"].to_numpy(dtype=float)


def by_contribution(parts: pd.DataFrame) -> NDArray[np.float64]:
    return (parts["loss_tokens"] * parts["advantage_size"]).to_numpy(dtype=float)


WEIGHTINGS: Final[Mapping[str, Weighting]] = {
    "rollout": by_rollout,
    "token": by_token,
    "loss token": by_loss_token,
    "contribution": by_contribution,
}
_COUNTED: Final[Mapping[str, Weighting]] = {**WEIGHTINGS, "contribution": by_loss_token}
"""What n is the sum of: rollouts or tokens, never their |A|."""


def weighed(rollouts: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """What weightings are functions of: rollout_id, status, lag, tokens, rollout_tokens, loss_tokens,
    advantage_size; one row a segment that has tokens, of a rollout that has a lag."""
    parts = token_lags(rollouts, segments)
    parts["rollout_tokens"] = parts.groupby("rollout_id")["tokens"].transform("sum")
    counted = parts.get("loss_tokens", parts["tokens"])
    parts["loss_tokens"] = counted.where(parts["status"] == "trained", 0)
    parts["advantage_size"] = parts["rollout_id"].map(advantage_sizes(rollouts)).fillna(0.0)
    return parts


def advantage_sizes(rollouts: pd.DataFrame) -> pd.Series[float]:
    r"""|A| of each rollout, by rollout_id; 0 where there is no reward.

    :math:`|A_i| = |r_i - \bar r_{g(i)}|` with the mean over the rewarded members of its group. *Choice*: one
    that is alone in its group is compared with the mean reward of its update; the critic or running mean
    that the estimator had is not in the log.
    """
    known = rollouts.loc[rollouts["reward"].notna()]
    reward = known["reward"].astype(float)
    in_group = reward.groupby(known["group_id"])
    in_update = reward.groupby(known["consumed_version"])
    alone = in_group.transform("size") == 1
    mean = in_group.transform("mean").where(~alone, in_update.transform("mean"))
    sizes = (reward - mean).abs().fillna(0.0)
    sizes.index = pd.Index(known["rollout_id"])
    return sizes.reindex(rollouts["rollout_id"], fill_value=0.0)


def lag_table(rollouts: pd.DataFrame, segments: pd.DataFrame, *, version: int | None = None) -> pd.DataFrame:
    """Lags by population and weighting, in updates.

    Args:
        version: the trainer's when the run ended, from which what is left counts its age; None for the
            newest in the tables.

    Returns:
        Columns population, weighting, n, unit (of n), min, mean, p50, p90, p99, max, method. n is 0 where
        nothing has weight: dropped tokens are in no loss.
    """
    parts, oldest = weighed(rollouts, segments), rollout_lags(rollouts, segments)
    rows = [
        row
        for population, statuses in POPULATIONS.items()
        for row in _rows(population, of_status(oldest, statuses), of_status(parts, statuses))
    ]
    over = of_status(rollouts, ("queued", "waiting"))
    seen = pd.Series([rollouts["consumed_version"].max(), segments["version"].max()], dtype=float)
    newest = seen.max() if version is None else float(version)
    if len(over) and not np.isnan(newest):
        aged = over.assign(consumed_version=newest)
        rows += _rows(LEFT, rollout_lags(aged, segments), weighed(aged, segments))
    return pd.DataFrame(rows)


def _rows(population: str, oldest: pd.DataFrame, parts: pd.DataFrame) -> list[dict[str, object]]:
    first = {"population": population}
    own = lag_summary(oldest["oldest"].to_numpy(dtype=float))
    rows: list[dict[str, object]] = [{**first, "weighting": OLDEST, **own, "unit": "rollouts"}]
    lags = parts["lag"].to_numpy(dtype=float)
    for name, weighting in WEIGHTINGS.items():
        weights = weighting(parts)
        counted = _COUNTED[name](parts)[weights > 0].sum()
        unit = "rollouts" if name == "rollout" else "tokens"
        rows.append(
            {**first, "weighting": name, **lag_summary(lags, weights), "n": round(counted), "unit": unit}
        )
    return rows


def run_lag_table(run: Run) -> pd.DataFrame:
    """`lag_table`, with the age of what is left counted from the last update; empty rows left out."""
    table = lag_table(run.rollouts, run.segments, version=int(run.updates["version"].max()))
    return table.loc[table["n"] > 0]
