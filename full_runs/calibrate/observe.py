r"""What was each engine doing while it served a rollout? Out of any event log, real or simulated.

A rollout of u tokens in R requests keeps an engine busy for

.. math:: R d + p m + a u + b \textstyle\int n\,du + c \int K\,du

seconds, when a decode step with n rollouts that hold K tokens of keys and values takes a + b n + c K, a
request costs d seconds besides, and decoding stands still for p seconds whenever one of the m requests that
came to the engine meanwhile is prefilled. Here are u, R, m and the two integrals, each as u times an average
over the rollout's own time; what is fitted to them is in `speed`. Time in which the engine stood still for a
push does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.idle import merge
from analysis.runs import Run

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Step = Callable[[Floats, Floats], Floats]
"""Rollouts running and tokens held, one of each an interval -> seconds of a decode step, in any unit."""

STANDS_STILL: Final = "sync"
"""Cause of a slot's idle time while its engine takes new weights."""
_INSTANT: Final = 1e-9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Rollouts that engines finished; every array has shape [n], in the order in which they ended."""

    finished_s: Floats
    seconds: Floats
    """That an engine worked on it: without standing still, without its environment."""
    tokens: Floats
    requests: Floats
    """Turns: each is asked anew."""
    arrivals: Floats
    """Requests that came to its engine in its time, its own among them."""
    running: Floats
    """Rollouts on its engine, averaged over its time, itself among them."""
    held_tokens: Floats
    """Tokens that those held, likewise."""

    def between(self, start_s: float, end_s: float) -> Served:
        """Those that ended in (start_s, end_s]."""
        own = (self.finished_s > start_s) & (self.finished_s <= end_s)
        return Served(**{name: getattr(self, name)[own] for name in Served.__slots__})


def even(running: Floats, held_tokens: Floats) -> Floats:  # noqa: ARG001 - a pace that depends on neither
    """Every step takes as long as any other."""
    return np.ones_like(running)


def served(run: Run, step_s: Step = even, *, prompt_tokens: int = 0) -> Served:
    """What every engine did for every rollout that it finished.

    Args:
        prompt_tokens: of every prompt, held beside what is generated; logs do not say it.
        step_s: seconds of a decode step by rollouts running and tokens held, as far as they are known: a
            rollout's tokens come at the pace of its engine's steps.
    """
    rollouts = run.rollouts.loc[run.rollouts["engine"].notna() & run.rollouts["started_s"].notna()]
    stops = standing_still(run.intervals)
    parts: list[dict[str, Floats]] = []
    for engine in sorted(set(rollouts["engine"].astype(int))):
        own, stopped = rollouts.loc[rollouts["engine"] == engine], stops.get(engine, np.empty((0, 2)))
        parts.append(_on_one_engine(own, stopped, step_s, prompt_tokens))
    columns = {name: np.concatenate([p[name] for p in parts] or [np.empty(0)]) for name in Served.__slots__}
    order = np.argsort(columns["finished_s"], kind="stable")
    return Served(**{name: values[order] for name, values in columns.items()})


def joined(parts: Sequence[Served]) -> Served:
    """One after another."""
    return Served(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in Served.__slots__}
    )


def standing_still(intervals: pd.DataFrame) -> dict[int, Floats]:
    """By engine, the disjoint spans in which a slot of it stood still for a push; seconds, shape [n, 2]."""
    stops = intervals.loc[(intervals["state"] == "idle") & (intervals["cause"] == STANDS_STILL)]
    engines = stops["resource"].str.extract(r"^engine-(\d+)/", expand=False).astype(int)
    spans = stops[["start_s", "end_s"]].to_numpy(dtype=float)
    return {engine: merge(spans[(engines == engine).to_numpy()]) for engine in sorted(set(engines))}


def worked_s(times_s: Floats, stops: Floats) -> Floats:
    """Seconds that an engine had not stood still by each time.

    Args:
        stops: disjoint spans in order, shape [n, 2].
    """
    if len(stops) == 0:
        return times_s
    lost = np.concatenate([[0.0], np.cumsum(stops[:, 1] - stops[:, 0])])
    place = np.searchsorted(stops[:, 0], times_s, side="right")
    inside = np.maximum(0.0, stops[place - 1, 1] - times_s) * (place > 0)
    return np.asarray(times_s - lost[place] + inside)


def _on_one_engine(
    rollouts: pd.DataFrame, stops: Floats, step_s: Step, prompt_tokens: int
) -> dict[str, Floats]:
    """What is in `Served`, of one engine's rollouts in the order of their rows."""
    finished = rollouts["finished_s"].notna().to_numpy()
    last_s = float(np.nanmax(rollouts[["started_s", "finished_s"]].to_numpy(dtype=float)))
    start = worked_s(rollouts["started_s"].to_numpy(dtype=float), stops)
    end = worked_s(rollouts["finished_s"].fillna(last_s).to_numpy(dtype=float), stops)
    # What still runs has made who knows how many: it counts among the running, not in what is held.
    tokens = np.where(finished, rollouts["action_tokens"].fillna(0).to_numpy(dtype=float), 0.0)
    requests = rollouts["turns"].fillna(1).to_numpy(dtype=float)

    edges, places = np.unique(np.concatenate([start, end]), return_inverse=True)
    times = _Times(
        first=places[: len(start)], last=places[len(start) :], span=np.diff(edges, append=edges[-1])
    )
    running = times.together(np.ones(len(start)))
    held, _ = times.held(tokens)
    pace = step_s(running, held + prompt_tokens * running)
    times = _Times(first=times.first, last=times.last, span=times.span / pace)
    held, growth = times.held(tokens)
    came = np.concatenate([[0.0], np.cumsum(np.bincount(times.first, requests, len(edges)))])
    columns = {
        "finished_s": rollouts["finished_s"].to_numpy(dtype=float),
        "seconds": np.maximum(end - start - _elsewhere_s(rollouts), 0.0),
        "tokens": tokens,
        "requests": requests,
        "arrivals": came[np.maximum(times.last, times.first + 1)] - came[times.first],
        "running": times.average(running),
        "held_tokens": times.average(held + prompt_tokens * running + 0.5 * growth * times.span),
    }
    return {name: values[finished] for name, values in columns.items()}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """Rollouts that begin and end at edges of time (in seconds, or steps); shapes [n] and [edges]."""

    first: Places
    last: Places
    span: Floats
    """From each edge to the next; 0 after the last."""

    def together(self, each: Floats) -> Floats:
        """From each edge to the next, the sum over those that are under way."""
        edges = len(self.span)
        return np.cumsum(np.bincount(self.first, each, edges) - np.bincount(self.last, each, edges))

    def of(self, rate: Floats) -> Floats:
        """A rate, added up over each rollout's time."""
        area = np.concatenate([[0.0], np.cumsum(rate * self.span)])
        return np.asarray(area[self.last] - area[self.first])

    def average(self, level: Floats) -> Floats:
        """Over each rollout's time; of one that took none, 0."""
        time = self.of(np.ones_like(self.span))
        return np.asarray(np.where(time > _INSTANT, self.of(level) / np.maximum(time, _INSTANT), 0.0))

    def held(self, tokens: Floats) -> tuple[Floats, Floats]:
        """At each edge, what those under way hold, and how fast it grows until the next.

        Each comes by its tokens evenly in its own time, and leaves with all of them.
        """
        growth = self.together(tokens / np.maximum(self.of(np.ones_like(self.span)), _INSTANT))
        grown = np.concatenate([[0.0], np.cumsum(growth * self.span)[:-1]])
        return grown - np.cumsum(np.bincount(self.last, tokens, len(self.span))), growth


def _elsewhere_s(rollouts: pd.DataFrame) -> Floats:
    """Seconds between a rollout's start and end in which no engine worked on it: `eventlog.EPISODES`."""
    if "environment_s" not in rollouts:
        return np.zeros(len(rollouts))
    waited_s = rollouts["environment_s"].fillna(0) + rollouts["slot_wait_s"].fillna(0)
    before_s = rollouts["started_s"] - rollouts["submitted_s"]  # part of what was waited for
    return np.asarray(np.maximum(waited_s - before_s, 0.0), dtype=np.float64)
