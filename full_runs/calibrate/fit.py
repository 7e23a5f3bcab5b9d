"""Which settings of the simulator does the first part of a run call for?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from analysis.measures.idle import merge
from analysis.runs import Run
from analysis.statistics.intervals import Interval, bootstrap_interval
from full_runs.calibrate.observe import Step, even, joined, served, standing_still, worked_s
from full_runs.calibrate.speed import speed, step_of

ROUNDS: Final = 3
"""Pace and constants depend on each other; after so many rounds neither moves."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Updates from `after` (not itself) to `until`, and the seconds between their ends."""

    after: int
    until: int
    start_s: float
    end_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What the fitted part was like; times in seconds."""

    part: Part
    prompt_tokens: int
    engine: Mapping[str, Interval]
    """By `speed.NAMES`."""
    policy_update_s: Interval
    """A whole update, critic and all, besides what its tokens cost."""
    policy_update_s_per_token: Interval
    save_s: Interval
    """Of a push while engines still decode."""
    push_s: Interval
    """The rest of it, engines standing still, if they do."""
    checkpoint_s: Interval
    """For each update: checkpoints are not made after every one."""
    tokens: NDArray[np.int64]
    """Lengths of the turns of what was started in the part, whole rollouts dealt evenly; shape [n]."""
    turns: NDArray[np.int64]
    """Of each rollout; shape [n]."""
    observation_tokens: float
    """Mean that an environment returns after a turn."""
    latency_s: float
    """Mean that it takes."""
    running: tuple[float, float]
    """Rollouts on an engine, 1st and 99th percentile: beyond them a foretold speed is an extrapolation."""


def part_of(run: Run, first: float, last: float) -> Part:
    """From one share of a run's updates to another.

    Raises:
        ValueError: no update lies between.
    """
    updates = run.updates.sort_values("version", kind="stable")
    ends_s = np.concatenate([[0.0], updates["train_end_s"].to_numpy(dtype=float)])
    after, until = round(first * len(updates)), round(last * len(updates))
    if until - after < 2:
        raise ValueError(f"of {len(updates)} updates {until - after} lie in the part; needed are at least 2")
    return Part(after=after, until=until, start_s=float(ends_s[after]), end_s=float(ends_s[until]))


def fit(run: Run, part: Part, *, prompt_tokens: int, more: Sequence[tuple[Run, Part]] = ()) -> Constants:
    """The constants of a part of a run.

    Args:
        prompt_tokens: of every prompt; where it is not known, 1 stands for all that a prefill costs.
        more: parts of other runs that engines' speeds are fitted to as well. One run seldom says what its
            speed owes to how many rollouts run at once, since these hardly change.

    Raises:
        ValueError: too few rollouts or updates.
    """
    step_s: Step = even
    constants: dict[str, Interval] = {}
    for _ in range(ROUNDS):
        own = joined(
            [
                served(each, step_s, prompt_tokens=prompt_tokens).between(its.start_s, its.end_s)
                for each, its in ((run, part), *more)
            ]
        )
        constants = speed(own)
        step_s = step_of(constants)
    fixed, per_token = _update_s(run.updates, part)
    save_s, push_s = _push_s(run.intervals, part)
    lengths = _lengths(run.rollouts, part)
    return Constants(
        part=part,
        prompt_tokens=prompt_tokens,
        engine=constants,
        policy_update_s=fixed,
        policy_update_s_per_token=per_token,
        save_s=save_s,
        push_s=push_s,
        checkpoint_s=_checkpoint_s(run.intervals, part),
        running=(float(np.percentile(own.running, 1)), float(np.percentile(own.running, 99))),
        **lengths,
    )


def _update_s(updates: pd.DataFrame, part: Part) -> tuple[Interval, Interval]:
    """Seconds of an update, and for each of its tokens; least squares, neither negative."""
    own = updates.loc[(updates["version"] > part.after) & (updates["version"] <= part.until)]
    seconds = (own["train_end_s"] - own["train_start_s"]).to_numpy(dtype=float)
    tokens = own["tokens"].to_numpy(dtype=float)
    scale = max(float(tokens.mean()), 1.0)
    design = np.column_stack([np.ones_like(tokens), tokens / scale])
    rows = np.random.default_rng(0).integers(len(own), size=(400, len(own)))
    samples = np.stack([nnls(design[drawn], seconds[drawn])[0] for drawn in rows]) / (1.0, scale)
    found = nnls(design, seconds)[0] / (1.0, scale)
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    both = [
        Interval(
            estimate=float(found[i]),
            low=float(low[i]),
            high=float(high[i]),
            n=len(own),
            confidence=0.95,
            method="bootstrap over updates",
        )
        for i in range(2)
    ]
    return both[0], both[1]


def _push_s(intervals: pd.DataFrame, part: Part) -> tuple[Interval, Interval]:
    """Seconds of a push before engines stand still for it, and from there to its end.

    Where they do not stand still for it, all of it is the second.
    """
    pushes = intervals.loc[(intervals["resource"] == "trainer") & (intervals["cause"] == "push")]
    own = pushes.loc[(pushes["start_s"] >= part.start_s) & (pushes["start_s"] < part.end_s)]
    start_s, end_s = (own[name].to_numpy(dtype=float) for name in ("start_s", "end_s"))
    stops = merge(np.concatenate([np.empty((0, 2)), *standing_still(intervals).values()]))
    still_s = worked_s(start_s, stops) - worked_s(end_s, stops) + (end_s - start_s)
    still_s = np.where(still_s > 0, still_s, end_s - start_s)
    both = (end_s - start_s - still_s, still_s) if len(own) else ([0.0], [0.0])
    before, still = (bootstrap_interval(seconds, rng=np.random.default_rng(0)) for seconds in both)
    return before, still


def _checkpoint_s(intervals: pd.DataFrame, part: Part) -> Interval:
    """Seconds of the trainer's checkpoints, all of the part's dealt out evenly over its updates."""
    made = intervals.loc[(intervals["resource"] == "trainer") & (intervals["cause"] == "checkpoint")]
    own = made.loc[(made["start_s"] >= part.start_s) & (made["start_s"] < part.end_s)]
    updates = part.until - part.after
    each_s = np.zeros(updates)
    each_s[: len(own)] = (own["end_s"] - own["start_s"]).to_numpy(dtype=float)[:updates]
    return bootstrap_interval(each_s, rng=np.random.default_rng(0))


def _lengths(rollouts: pd.DataFrame, part: Part) -> dict[str, Any]:
    """What rollouts are like: those that were *started* in the part and have ended since, long ones too."""
    started = rollouts["started_s"]
    own = rollouts.loc[(started >= part.start_s) & (started < part.end_s) & rollouts["finished_s"].notna()]
    if own.empty:
        raise ValueError("no rollout was started in the part to fit and has ended")
    turns = np.maximum(own["turns"].fillna(1).to_numpy(dtype=np.int64), 1)
    tokens = own["action_tokens"].to_numpy(dtype=np.int64)
    between = max(int((turns - 1).sum()), 1)
    environment_s = own["environment_s"].fillna(0).sum() if "environment_s" in own else 0.0
    return {
        "tokens": np.maximum(np.rint(np.repeat(tokens / turns, turns)), 1).astype(np.int64),
        "turns": turns,
        "observation_tokens": float(own["observation_tokens"].fillna(0).sum()) / between,
        "latency_s": float(environment_s) / between,
    }
