"""Which version made which token?

A push swaps the weights under running rollouts, which keep their keys and values and carry on. A token
is sampled at the end of its decode step, and the step under way at a push ends under the old weights:
after a push at time p, a rollout that started at s holds ceil((p - s) / seconds_per_token) tokens of
older versions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

TIE_STEPS: Final = 1e-6
"""A push this close behind the end of a step, in steps, falls on it: sums of times carry rounding errors."""

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class Segment(NamedTuple):
    """Consecutive tokens of one rollout that one version sampled."""

    version: int
    start_token: int
    tokens: int
    start_s: float
    end_s: float


class Segments(NamedTuple):
    """The segments of many rollouts, as columns; `rollout` is a place in what was asked about."""

    rollout: Ints
    version: Ints
    start_token: Ints
    tokens: Ints
    start_s: Floats
    end_s: Floats


@final
class Weights:
    """What the engines hold, and when they got it: version 0 at time 0, then every publish."""

    __slots__ = ("published_s", "versions")

    def __init__(self) -> None:
        self.published_s = [0.0]
        self.versions = [0]

    def publish(self, version: int, now_s: float) -> None:
        self.versions.append(version)
        self.published_s.append(now_s)

    @property
    def version(self) -> int:
        """The version that an engine which starts a rollout now holds."""
        return self.versions[-1]

    @property
    def latest(self) -> int:
        """Index of the latest publish."""
        return len(self.versions) - 1

    def first_index(self, started_s: float, index: int, seconds_per_token: float) -> int:
        """The publish that a rollout's first token saw, given the latest one at its start.

        Not always that one: another may follow at the same time, but for a rounding error.
        """
        tie_s = started_s + TIE_STEPS * seconds_per_token
        published_s = self.published_s
        while index + 1 < len(published_s) and published_s[index + 1] <= tie_s:
            index += 1
        return index


def cut_at_publishes(
    started_s: float,
    tokens: int,
    seconds_per_token: float,
    versions: Sequence[int],
    published_s: Sequence[float],
) -> tuple[Segment, ...]:
    """Segments of a rollout, given the version it started under and every one published until it finished.

    Args:
        versions: the starting one first; at least one.
        published_s: when each arrived; the first is not looked at.
    """
    segments = []
    done, from_s = 0, started_s
    for i in range(1, len(versions)):
        steps = (published_s[i] - started_s) / seconds_per_token
        cut = min(tokens, max(done, math.ceil(steps - TIE_STEPS)))
        if cut > done:
            until_s = started_s + cut * seconds_per_token
            segments.append(Segment(versions[i - 1], done, cut - done, from_s, until_s))
            done, from_s = cut, until_s
    if done < tokens:
        until_s = started_s + tokens * seconds_per_token
        segments.append(Segment(versions[-1], done, tokens - done, from_s, until_s))
    return tuple(segments)


def cut_many_at_publishes(
    weights: Weights, started_s: Floats, tokens: Ints, seconds_per_token: float, first: Ints, last: Ints
) -> Segments:
    """`cut_at_publishes` for many rollouts at once, in order of rollout and token.

    Args:
        first, last: index into `weights` at the first token and at the end, one a rollout.
    """
    versions, published_s = np.array(weights.versions), np.array(weights.published_s)
    pieces = last - first + 1
    rollout = np.repeat(np.arange(len(pieces)), pieces)
    ends = np.cumsum(pieces)
    index = np.arange(len(rollout)) - np.repeat(ends - pieces, pieces) + np.repeat(first, pieces)
    start_s, length = started_s[rollout], tokens[rollout]
    steps = np.ceil((published_s[index] - start_s) / seconds_per_token - TIE_STEPS)
    start_token = np.clip(steps, 0, length).astype(np.int64)
    start_token[ends - pieces] = 0
    end_token = np.append(start_token[1:], 0)
    end_token[ends - 1] = tokens
    kept = np.flatnonzero(end_token > start_token)
    rollout, start_s = rollout[kept], start_s[kept]
    start_token, end_token = start_token[kept], end_token[kept]
    return Segments(
        rollout=rollout,
        version=versions[index[kept]],
        start_token=start_token,
        tokens=end_token - start_token,
        start_s=start_s + start_token * seconds_per_token,
        end_s=start_s + end_token * seconds_per_token,
    )
