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

BLOCK = 4096


@final
class KeyedDraws:
    """Rows of random numbers by id.

    Args:
        seed: of the run.
        purpose: a small integer, one for each use; equal purposes give equal numbers.
        draw: (generator, rows) -> array with `rows` rows.
    """

    def __init__(
        self, seed: int, purpose: int, draw: Callable[[np.random.Generator, int], NDArray[Any]]
    ) -> None:
        self._seed = seed
        self._purpose = purpose
        self._draw = draw
        self._blocks: dict[int, NDArray[Any]] = {}

    def _block(self, index: int) -> NDArray[Any]:
        if index not in self._blocks:
            stream = np.random.SeedSequence(self._seed, spawn_key=(self._purpose, index))
            self._blocks[index] = self._draw(np.random.default_rng(stream), BLOCK)
        return self._blocks[index]

    def rows(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of `ids`, in their order."""
        blocks, offsets = np.divmod(ids, BLOCK)
        first = int(blocks[0])
        if (blocks == first).all():
            return np.asarray(self._block(first)[offsets])
        return np.stack([self._block(int(b))[o] for b, o in zip(blocks, offsets, strict=True)])
