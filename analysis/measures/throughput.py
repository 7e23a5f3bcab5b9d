"""How fast was it, and was every token accounted for? Rates over the whole run, and the ledger re-checked.

Rates divide what happened in a span of time by that same span (never a running total by the last step).
Hours are hours of the run's clock, simulated or wall.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from analysis.measures.lengths import length_bias
from analysis.runs import Run

STATUSES: Final = ("trained", "training", "dropped", "queued", "waiting", "in_flight")
BEGUN: Final = "generated or begun"


def window_s(run: Run) -> tuple[float, float]:
    """From the start of the run to the end of its last update, in seconds: what every share is a share of."""
    if run.updates.empty:
        raise ValueError(f"run {run.arm!r} seed {run.seed} has no update, so no window to measure in")
    return 0.0, float(run.updates["train_end_s"].max())


def throughput(run: Run) -> dict[str, float]:
    """Updates, hours, updates an hour, generated and trained tokens a second, and `lengths.length_bias`.

    `length_ratio` is trained over generated mean length: below 1, the rules threw away long rollouts.
    """
    _, end_s = window_s(run)
    rollouts = run.rollouts
    tokens = rollouts["action_tokens"].to_numpy(dtype=float)
    trained = (rollouts["status"] == "trained").to_numpy()
    return {
        "updates": float(len(run.updates)),
        "hours": end_s / 3600,
        "updates_per_hour": len(run.updates) / (end_s / 3600),
        "generated_tokens_per_s": float(run.segments["tokens"].sum()) / end_s,
        "trained_tokens_per_s": float(tokens[trained].sum()) / end_s,
        **length_bias(rollouts),
    }


def step_rates(updates: pd.DataFrame) -> pd.DataFrame:
    """One row an update: version, seconds since the last update ended, tokens trained a second in them."""
    ends_s = updates["train_end_s"].to_numpy(dtype=float)
    step_s = np.diff(ends_s, prepend=0.0)
    return pd.DataFrame(
        {
            "version": updates["version"].to_numpy(),
            "step_s": step_s,
            "tokens_per_s": updates["tokens"].to_numpy(dtype=float) / step_s,
        }
    )


def ledger(run: Run) -> pd.DataFrame:
    """Rollouts and tokens by what became of them; dropped ones by reason. Columns: fate, rollouts, tokens."""
    table = run.rollouts[["status", "reason", "action_tokens"]].copy()
    dropped = table["status"] == "dropped"
    reason = table["reason"].astype(object).where(table["reason"].notna(), "no reason given")
    table["fate"] = table["status"].where(~dropped, "dropped: " + reason)
    return (
        table.groupby("fate", sort=True)
        .agg(rollouts=("action_tokens", "size"), tokens=("action_tokens", "sum"))
        .reset_index()
    )


def account(run: Run) -> pd.DataFrame:
    """The ledger as a sum: what was begun, then each fate in the order of a rollout's way, then nothing left.

    Returns:
        Columns fate, rollouts, tokens, share (of the tokens). The first row is the sum of the others, as
        integers; what is in flight counts with the whole length that it will have.
    """
    parts = ledger(run)
    place = {status: i for i, status in enumerate(STATUSES)}
    order = parts["fate"].map(lambda fate: place.get(str(fate).split(":")[0], len(place)))
    parts = parts.iloc[np.argsort(order.to_numpy(), kind="stable")]
    total = pd.DataFrame({"fate": [BEGUN], **{name: [parts[name].sum()] for name in ("rollouts", "tokens")}})
    table = pd.concat([total, parts], ignore_index=True)
    return table.assign(share=table["tokens"] / max(1, int(table["tokens"].iloc[0])))


def check_ledger(run: Run) -> None:
    """generated = trained + dropped + queued + in flight, in rollouts and in tokens, from three tables.

    The segments say what was generated, the rollouts what became of it, the updates what was trained on:
    three records of the same tokens, which must agree exactly. A rollout in flight is listed with the
    length it will have, so its segments may hold less, never more.

    Raises:
        ValueError: with the two numbers that differ.
    """
    who = f"run {run.arm!r} seed {run.seed}"
    rollouts = run.rollouts
    unknown = set(rollouts["status"].unique()) - set(STATUSES)
    if unknown:
        raise ValueError(f"{who}: rollouts with the status {sorted(unknown)}, which no account covers")
    if rollouts["rollout_id"].duplicated().any():
        raise ValueError(f"{who}: a rollout is listed twice, so it would be counted twice")
    made = rollouts["rollout_id"].map(run.segments.groupby("rollout_id")["tokens"].sum()).fillna(0)
    flying = rollouts["status"] == "in_flight"
    if (made[flying] > rollouts["action_tokens"][flying]).any():
        raise ValueError(f"{who}: a rollout in flight has made more tokens than it will have")
    trained = rollouts.loc[rollouts["status"] == "trained"]
    pairs = {
        "tokens of known rollouts and of all segments": (made.sum(), run.segments["tokens"].sum()),
        "tokens in segments and in rollouts": (made[~flying].sum(), rollouts["action_tokens"][~flying].sum()),
        "trained tokens in updates and in rollouts": (
            run.updates["tokens"].sum(),
            trained["action_tokens"].sum(),
        ),
        "trained rollouts in updates and in rollouts": (run.updates["rollouts"].sum(), len(trained)),
    }
    for what, (one, other) in pairs.items():
        if int(one) != int(other):
            raise ValueError(f"{who}: {what} differ: {int(one)} and {int(other)}")
