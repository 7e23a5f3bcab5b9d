"""What do records of single rollouts say of each update? Sums an update; of texts only a bounded sample of
hashes.

Groups are closed when the next update begins: parts of an update that come later add to its sums, but a group
that is torn apart counts as two.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import pandas as pd

from analysis.audit.reading.identities import Identities, hash_of
from analysis.audit.reading.lines import Record
from analysis.audit.reading.numbers import is_sound, number, numbers_of
from analysis.audit.reading.row_of import RowOf
from analysis.audit.reading.tokens import UNKNOWN_LAG, TokenSums

MAX_GROUPS: Final = 65_536
"""Open groups beyond which they are closed, so that a log without updates takes no more memory."""
DROPPED: Final = frozenset({"dropped", "rejected", "failed", "cancelled"})
_SUMS: Final = (
    "rollouts",
    "offered",
    "dropped",
    "rewards",
    "reward",
    "reward_squared",
    "lengths",
    "length",
    "offered_lengths",
    "offered_length",
    "lags",
    "lag",
    "truncations",
    "truncated",
    "groups",
    "equal_groups",
    "repeated",
    "texts",
)

_TOGETHER: Final[Mapping[str, Callable[[float, float], float]]] = {
    "reward_min": min,
    "reward_max": max,
    "lag_max": max,
}
_START: Final = {"reward_min": math.inf, "reward_max": -math.inf, "lag_max": -math.inf}


@final
@dataclass(slots=True, kw_only=True)
class RolloutSums:
    """The fold: `add` each rollout in our names, then `table`."""

    tokens: TokenSums = field(default_factory=TokenSums)
    identities: Identities = field(default_factory=Identities)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """By status: how many, and the seconds of their generation."""
    rows: RowOf = field(default_factory=RowOf)
    _sums: list[dict[str, float]] = field(default_factory=list)
    """A row each."""
    _groups: dict[object, tuple[float, int, bool]] = field(default_factory=dict)
    _current: float = math.nan

    def add(self, rollout: Record, update: float) -> None:
        """One rollout of an update."""
        if update != self._current:
            self._close()
            self._current = update
        sums = self._at(update)
        status = str(rollout.get("status") or "trained")
        is_dropped = status in DROPPED
        sums["offered"] += 1
        sums["dropped"] += is_dropped
        self._add_length(sums, rollout, is_dropped)
        if (seconds := number(rollout.get("generate_s"))) is not None and is_sound(seconds):
            spent = self.seconds.setdefault("dropped" if is_dropped else "trained", [0.0, 0.0])
            spent[0] += 1
            spent[1] += seconds
        if is_dropped:
            return
        sums["rollouts"] += 1
        self._add_reward(sums, rollout)
        self._add_identity(sums, rollout, update)
        lags = self._add_lag(sums, rollout)
        if (cut := number(rollout.get("truncated"))) is not None:
            sums["truncations"] += 1
            sums["truncated"] += cut > 0
        self._add_tokens(rollout, lags)

    def _at(self, update: float) -> dict[str, float]:
        """The sums of the row of an update."""
        row = self.rows.place(update)
        if row == len(self._sums):
            self._sums.append(dict.fromkeys(_SUMS, 0.0))
        if not self.rows.is_full:
            return self._sums[row]
        merged: list[dict[str, float]] = [{} for _ in range((len(self._sums) + 1) // 2)]
        for new, sums in zip(self.rows.merge(), self._sums, strict=True):
            for name, value in sums.items():
                together: Callable[[float, float], float] = _TOGETHER.get(name, operator.add)
                merged[new][name] = together(merged[new].get(name, _START.get(name, 0.0)), value)
        self._sums = merged
        return self._sums[self.rows.place(update)]

    def _add_length(self, sums: dict[str, float], rollout: Record, is_dropped: bool) -> None:
        length = number(rollout.get("response_length"))
        if length is None or not is_sound(length):
            return
        sums["offered_lengths"] += 1
        sums["offered_length"] += length
        if not is_dropped:
            sums["lengths"] += 1
            sums["length"] += length

    def _add_reward(self, sums: dict[str, float], rollout: Record) -> None:
        reward = number(rollout.get("reward"))
        if reward is None or not is_sound(reward):
            return
        sums["rewards"] += 1
        sums["reward"] += reward
        sums["reward_squared"] += reward * reward
        sums["reward_min"] = min(sums.get("reward_min", math.inf), reward)
        sums["reward_max"] = max(sums.get("reward_max", -math.inf), reward)
        group = rollout.get("group")
        if group is not None:
            key = hash_of(group)
            first, members, equal = self._groups.get(key, (reward, 0, True))
            self._groups[key] = (first, members + 1, equal and reward == first)
            if len(self._groups) > MAX_GROUPS:
                self._close()

    def _add_identity(self, sums: dict[str, float], rollout: Record, update: float) -> None:
        own = rollout.get("id")
        if own is None:
            if rollout.get("response") in (None, ""):
                return
            own = (rollout.get("prompt"), rollout["response"])
        seen = self.identities.add(own, update)
        sums["texts"] += seen != "not sampled"
        sums["repeated"] += seen == "in this update"

    def _add_lag(self, sums: dict[str, float], rollout: Record) -> float | None:
        lag, version = number(rollout.get("lag")), number(rollout.get("version"))
        consumed = number(rollout.get("consumed_version"))
        if lag is None and version is not None and consumed is not None:
            lag = consumed - version
        if lag is None or not is_sound(lag):
            return None
        sums["lags"] += 1
        sums["lag"] += lag
        sums["lag_max"] = max(sums.get("lag_max", -math.inf), lag)
        return lag

    def _add_tokens(self, rollout: Record, lag: float | None) -> None:
        trainer, behaviour = (
            numbers_of(rollout.get(f"{side}_logprobs")) for side in ("trainer", "behaviour")
        )
        rewards = numbers_of(rollout.get("token_rewards"))
        length = len(trainer or behaviour or rewards or ())
        given = numbers_of(rollout.get("token_mask"))
        mask = np.ones(length, dtype=bool) if given is None else np.nan_to_num(np.asarray(given)) > 0
        versions, consumed = (
            numbers_of(rollout.get("token_versions")),
            number(rollout.get("consumed_version")),
        )
        lags = np.full(length, UNKNOWN_LAG if lag is None else lag)
        if versions is not None and consumed is not None and len(versions) == length:
            lags = consumed - np.asarray(versions)
        if trainer is not None and behaviour is not None:
            self.tokens.add(np.asarray(trainer), np.asarray(behaviour), mask, lags)
        if rewards is not None:
            self.tokens.add_rewards(np.asarray(rewards), mask)

    def _close(self) -> None:
        if not math.isnan(self._current):
            sums = self._at(self._current)
            whole = [equal for _, members, equal in self._groups.values() if members > 1]
            sums["groups"] += len(whole)
            sums["equal_groups"] += sum(whole)
        self._groups = {}

    def table(self) -> pd.DataFrame:
        """One row an update, in our columns; only columns that something was recorded for."""
        self._close()
        self._current = math.nan
        both = sorted(zip(self.rows.updates().tolist(), self._sums, strict=True), key=lambda pair: pair[0])
        rows = [{"update": update, **_row(sums)} for update, sums in both]
        return pd.DataFrame(rows).dropna(axis="columns", how="all") if rows else pd.DataFrame({"update": []})


def _row(sums: dict[str, float]) -> dict[str, float]:
    mean = _ratio(sums["reward"], sums["rewards"])
    variance = _ratio(sums["reward_squared"], sums["rewards"]) - mean * mean
    return {
        "rollouts": sums["rollouts"],
        "dropped_share": _ratio(sums["dropped"], sums["offered"]) if sums["dropped"] else math.nan,
        "reward_mean": mean,
        "reward_std": math.sqrt(max(0.0, variance)) if math.isfinite(variance) else math.nan,
        "reward_min": sums.get("reward_min", math.nan),
        "reward_max": sums.get("reward_max", math.nan),
        "response_length_mean": _ratio(sums["length"], sums["lengths"]),
        "response_length_generated_mean": (
            _ratio(sums["offered_length"], sums["offered_lengths"]) if sums["dropped"] else math.nan
        ),
        "lag_mean": _ratio(sums["lag"], sums["lags"]),
        "lag_max": sums.get("lag_max", math.nan),
        "truncated_share": _ratio(sums["truncated"], sums["truncations"]),
        "zero_variance_share": _ratio(sums["equal_groups"], sums["groups"]),
        "repeated_share": _ratio(sums["repeated"], sums["texts"]),
    }


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan
