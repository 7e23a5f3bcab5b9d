"""Which version made which token?

A push swaps the weights under running rollouts, which keep their keys and values and carry on. A token is sampled
at the end of its decode step, and the step under way at a push ends under the old weights: after a push at time p, a rollout
that started at s holds ceil((p - s) / seconds_per_token) tokens of older versions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, final

from simulator.pipeline.rollout import Segment

_TIE_STEPS: Final = 1e-6
"""A push this close behind the end of a step, in steps, falls on it: sums of times carry rounding errors."""


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
        cut = min(tokens, max(done, math.ceil(steps - _TIE_STEPS)))
        if cut > done:
            until_s = started_s + cut * seconds_per_token
            segments.append(Segment(versions[i - 1], done, cut - done, from_s, until_s))
            done, from_s = cut, until_s
    if done < tokens:
        until_s = started_s + tokens * seconds_per_token
        segments.append(Segment(versions[-1], done, tokens - done, from_s, until_s))
    return tuple(segments)
