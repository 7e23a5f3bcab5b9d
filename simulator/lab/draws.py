"""Which random numbers belong to rollout 17, whoever asks, in whatever order?

Numbers are drawn in blocks, each block from its own stream named by (seed, purpose, block). A rollout's
draws depend on its id alone, so two arms that meet the same rollout at different times sample with the
same uniforms (common random numbers), and a resumed run needs no stream state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from simulator.streams import stream

BLOCK = 4096


@final
class KeyedDraws:
    """Rows of random numbers by id.

    Args:
        seed: of the run.
        purpose: names the stream; equal purposes give equal numbers.
        draw: (generator, rows) -> array with `rows` rows.
    """

    def __init__(
        self, seed: int, purpose: str, draw: Callable[[np.random.Generator, int], NDArray[Any]]
    ) -> None:
        self._seed = seed
        self._purpose = purpose
        self._draw = draw
        self._blocks: dict[int, NDArray[Any]] = {}

    def _block(self, index: int) -> NDArray[Any]:
        if index not in self._blocks:
            self._blocks[index] = self._draw(stream(self._seed, self._purpose, index), BLOCK)
        return self._blocks[index]

    def rows(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of `ids`, in their order."""
        blocks, offsets = np.divmod(ids, BLOCK)
        parts = [(blocks == block, self._block(int(block))) for block in np.unique(blocks)]
        rows = np.empty((len(ids), *parts[0][1].shape[1:]), parts[0][1].dtype)
        for here, block in parts:
            rows[here] = block[offsets[here]]
        return rows
