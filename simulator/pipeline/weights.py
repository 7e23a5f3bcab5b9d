"""Which version made which token?

A push swaps the weights under running rollouts, which carry on. A token is sampled at the end of its decode
step, and the step under way at a push ends under the old weights: after a push at position p, a rollout
that began at s holds ceil((p - s) / unit) tokens of older versions. Positions are those of the engine's
*decode clock* and `unit` is what one token moves it on: see `engine`. So a push costs nothing a rollout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from simulator.world.decoding import TIE_TOKENS

TIE_STEPS: Final = TIE_TOKENS
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


class Cut(NamedTuple):
    """Consecutive tokens of one stint between two publishes."""

    publish: int
    """Place among the publishes that were asked about."""
    start_token: int
    tokens: int


class Cuts(NamedTuple):
    """The cuts of many stints, as columns."""

    stint: Ints
    publish: Ints
    start_token: Ints
    tokens: Ints


@final
class Weights:
    """What one engine holds, and since when: version 0 from the start, then every publish."""

    __slots__ = ("positions", "published_s", "versions")

    def __init__(self) -> None:
        self.versions = [0]
        self.published_s = [0.0]
        self.positions = [0.0]
        """Of the decode clock."""

    def publish(self, version: int, now_s: float, position: float) -> None:
        self.versions.append(version)
        self.published_s.append(now_s)
        self.positions.append(position)

    @property
    def version(self) -> int:
        """The version that a rollout which starts now is made by."""
        return self.versions[-1]

    @property
    def latest(self) -> int:
        """Index of the latest publish."""
        return len(self.versions) - 1

    def first_index(self, position: float, index: int, unit: float) -> int:
        """The publish that a stint's first token saw, given the latest one at its start.

        Not always that one: another may follow at the same position, but for a rounding error.
        """
        tie = position + TIE_STEPS * unit
        positions = self.positions
        while index + 1 < len(positions) and positions[index + 1] <= tie:
            index += 1
        return index


def cut_at_publishes(
    position: float, tokens: int, unit: float, publish_positions: Sequence[float]
) -> list[Cut]:
    """Which tokens fall between which publishes?

    Args:
        position: where the stint began.
        tokens: of the stint.
        unit: what one token moves the clock on.
        publish_positions: of the publish that it began under (not looked at) and all until it ended.
    """
    cuts = []
    done = 0
    for i in range(1, len(publish_positions)):
        steps = (publish_positions[i] - position) / unit
        end = min(tokens, max(done, math.ceil(steps - TIE_STEPS)))
        if end > done:
            cuts.append(Cut(i - 1, done, end - done))
            done = end
    if done < tokens:
        cuts.append(Cut(len(publish_positions) - 1, done, tokens - done))
    return cuts


def cut_many_at_publishes(
    publish_positions: Floats, position: Floats, tokens: Ints, unit: float, first: Ints, last: Ints
) -> Cuts:
    """`cut_at_publishes` for many stints at once, in order of stint and token.

    Args:
        first, last: index into `publish_positions` at the first token and at the end, one a stint.
    """
    pieces = last - first + 1
    stint = np.repeat(np.arange(len(pieces)), pieces)
    ends = np.cumsum(pieces)
    publish = np.arange(len(stint)) - np.repeat(ends - pieces - first, pieces)
    steps = np.ceil((publish_positions[publish] - position[stint]) / unit - TIE_STEPS)
    start_token = np.clip(steps, 0, tokens[stint]).astype(np.int64)
    start_token[ends - pieces] = 0
    end_token = np.append(start_token[1:], 0)
    end_token[ends - 1] = tokens
    kept = np.flatnonzero(end_token > start_token)
    start_token = start_token[kept]
    return Cuts(stint[kept], publish[kept], start_token, end_token[kept] - start_token)
