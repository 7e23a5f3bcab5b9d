"""When was the decode clock of a load-dependent engine where? Kept for the token after each publish."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import final

import numpy as np

from simulator.pipeline.weights import TIE_STEPS, Floats, Ints
from simulator.world.decoding import decode_s


@final
class ClockRecord:
    """Pieces during which the engine's load stayed the same."""

    __slots__ = ("_first_piece", "_pieces")

    def __init__(self) -> None:
        self._pieces = [array("d") for _ in range(4)]
        """Just after each publish: positions, times, step seconds and their growth, as they changed."""
        self._first_piece = [0]
        """Of each publish."""

    def publish(self) -> None:
        """Pieces from now on are those after one publish more."""
        self._first_piece.append(len(self._pieces[0]))

    def add(self, position: float, time_s: float, step_s: float, growth_s: float) -> None:
        """Another piece begins."""
        where, when, steps_s, growths_s = self._pieces
        where.append(position)
        when.append(time_s)
        steps_s.append(step_s)
        growths_s.append(growth_s)

    def moments(self, publishes: Ints, positions: Floats, /) -> Floats:
        """As in `Engine`."""
        where, when, step_s, growth_s = (np.frombuffer(column) for column in self._pieces)
        # A token that ends as a prefill or a pause begins was made before it.
        piece = np.searchsorted(where, positions - TIE_STEPS) - 1
        piece = np.maximum(piece, np.array(self._first_piece)[publishes])
        tokens = np.maximum(positions - where[piece], 0.0)
        return np.asarray(when[piece] + tokens * (step_s[piece] + 0.5 * growth_s[piece] * tokens))

    def moment(self, publish: int, position: float, /) -> float:
        """As in `Engine`."""
        where, when, step_s, growth_s = self._pieces
        piece = max(bisect_left(where, position - TIE_STEPS) - 1, self._first_piece[publish])
        return when[piece] + decode_s(max(position - where[piece], 0.0), step_s[piece], growth_s[piece])
