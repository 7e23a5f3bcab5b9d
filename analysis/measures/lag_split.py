"""Where did the lag come from: decoding, waiting for the group, queueing, or a trainer ahead of its engines?

A rollout ages by what is published while it exists. With P(t) the newest version that the engines hold at
t, its lag falls into what was published

- while it decoded: from its oldest token's version to P at its end (*generation*),
- while it waited for slower members of its group (*group wait*),
- while it stood in the trainer's queue, until the trainer took it or a rule dropped it (*queue*),

and what the trainer had made by then, or made before this rollout's turn in its batch, that no engine held
(*trainer ahead*). *Choice*: the last is a part of its own. With several updates a batch it is there even
where nothing ever waits, and would pass for queueing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.lag import POPULATIONS, met_the_trainer, of_status

PARTS: Final = {
    "generation": "generation",
    "group_wait": "group wait",
    "queue": "queue",
    "trainer_ahead": "trainer ahead",
}
"""Columns of the split, in the order of a rollout's life, and how they are called."""
_NEEDED: Final = (
    "rollout_id",
    "status",
    "consumed_version",
    "oldest_version",
    "last_version",
    "finished_s",
    "group_ready_s",
    "enqueued_s",
    "consumed_s",
)


def held_version(updates: pd.DataFrame, times_s: NDArray[np.float64], *, side: str) -> NDArray[np.int64]:
    """The newest version that the engines hold at these times; 0 before the first publish.

    Args:
        times_s: NaN is after everything.
        side: "before" leaves out what is published at the very instant, "from" counts it.
    """
    known = updates.loc[updates["published_s"].notna()].sort_values("published_s", kind="stable")
    newest = np.maximum.accumulate(np.concatenate([[0], known["version"].to_numpy(dtype=np.int64)]))
    at_s = known["published_s"].to_numpy(dtype=float)
    found: NDArray[np.int64] = newest[
        np.searchsorted(at_s, times_s, side="left" if side == "before" else "right")
    ]
    return found


def lag_split(rollouts: pd.DataFrame, updates: pd.DataFrame) -> pd.DataFrame:
    r"""One row a rollout that met the trainer or was dropped: its lag in updates, and the parts of it.

    :math:`c - o = [P(F) - o] + [P(G) - P(F)] + [P(T) - P(G)] + [c - P(T)]`

    with o its oldest version, c the version at which it was consumed, F, G and T the instants at which it
    finished, its group was complete, and the trainer took it or it was dropped. At one instant completions
    come before publishes, and publishes before the trainer takes or a rule drops.

    No part is negative: each P is kept between the one before it and c, and P(F) is at least the version of
    the last token, for an engine may hold weights before all do. One that was dropped before a stage ended
    aged in that stage until it was dropped.

    Returns:
        Columns rollout_id, status, those of `PARTS`, and lag: integers.

    Raises:
        ValueError: a rollout that was consumed before its oldest token's version existed.
    """
    # The few columns of it: a long run has many rollouts, and texts are slow to copy.
    met = rollouts.loc[met_the_trainer(rollouts) & rollouts["oldest_version"].notna(), list(_NEEDED)]
    oldest = met["oldest_version"].to_numpy(dtype=np.int64)
    consumed = met["consumed_version"].to_numpy(dtype=np.int64)
    if (consumed < oldest).any():
        worst = met.iloc[int((consumed - oldest).argmin())]
        raise ValueError(
            f"rollout {worst['rollout_id']} was consumed at version {worst['consumed_version']:.0f} "
            f"with tokens of version {worst['oldest_version']:.0f}: a token cannot be newer than the trainer"
        )
    taken_s = met["consumed_s"].astype(float)
    finished_s = met["finished_s"].astype(float)
    ready_s = met["group_ready_s"].astype(float).fillna(met["enqueued_s"].astype(float))
    taken = held_version(updates, np.asarray(taken_s, dtype=np.float64), side="from")
    newest = met["last_version"].fillna(met["oldest_version"]).to_numpy(dtype=np.int64)
    marks = [oldest]
    for ends_s, least in ((finished_s, newest), (ready_s, oldest)):
        held = held_version(updates, np.asarray(ends_s, dtype=np.float64), side="before")
        until = np.maximum(np.where(ends_s.isna(), taken, held), least)
        marks.append(np.clip(until, marks[-1], consumed))
    marks += [np.clip(taken, marks[-1], consumed), consumed]
    parts = np.diff(np.stack(marks), axis=0)
    return pd.DataFrame(
        {
            "rollout_id": met["rollout_id"].to_numpy(),
            "status": met["status"].array,
            **dict(zip(PARTS, parts, strict=True)),
            "lag": consumed - oldest,
        }
    )


def split_means(split: pd.DataFrame) -> pd.DataFrame:
    """One row a population that is not empty: rollouts, the mean of each part and of the lag, in updates."""
    rows: list[dict[str, object]] = []
    for population, statuses in POPULATIONS.items():
        own = of_status(split, statuses)
        if len(own):
            means = {name: float(own[name].mean()) for name in (*PARTS, "lag")}
            rows.append({"population": population, "rollouts": len(own), **means})
    return pd.DataFrame(rows, columns=["population", "rollouts", *PARTS, "lag"])
