"""Which policy does each validation result belong to?

To the version at which it was asked for. If engines got new weights while it ran, tokens of several versions
answered, and the result says so.
"""

from __future__ import annotations

import pandas as pd


def by_request(rollouts: pd.DataFrame) -> pd.DataFrame:
    """One row a validation: version (asked at), rollouts, ended, sampled_by, reward, submitted_s, ended_s.

    `sampled_by` is one version, "5", or "mixed 5-6"; `reward` is the mean over those that ended and have one;
    `ended_s` is missing while one of them runs. Attempts that began again count once, in their last attempt.

    Args:
        rollouts: of the log.
    """
    own = rollouts[(rollouts["status"] == "validation") & rollouts["reason"].isna()]
    rows = [
        {
            "version": int(group["consumed_version"].iloc[0]),
            "rollouts": len(group),
            "ended": int(group["finished_s"].notna().sum()),
            "sampled_by": _sampled_by(group),
            "reward": group["reward"].mean(),
            "submitted_s": group["submitted_s"].min(),
            "ended_s": group["finished_s"].max(skipna=False),
        }
        for _, group in own.groupby("consumed_version", sort=True)
    ]
    columns = ["version", "rollouts", "ended", "sampled_by", "reward", "submitted_s", "ended_s"]
    return pd.DataFrame(rows, columns=columns)


def _sampled_by(group: pd.DataFrame) -> str:
    first, last = group["first_version"].min(), group["last_version"].max()
    if pd.isna(first):
        return "nobody yet"
    return f"{first:.0f}" if first == last else f"mixed {first:.0f}-{last:.0f}"
