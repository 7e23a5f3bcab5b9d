"""Which length does member m of prompt p get? A function of the seed, p and m, whatever is asked first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count
from typing import Final, final

import numpy as np
from scipy.special import ndtr

from simulator.streams import stream
from simulator.world.lengths import LengthLaw, Tokens

_BLOCK_ROLLOUTS: Final = 8192


@final
class DrawnLengths:
    """Lengths from `law`; those of one prompt share `correlation`.

    A Gaussian copula joins the members of a prompt: hard prompts have long answers. That shortens the wait
    for the slowest member of a group and leaves the law of a single length as it is.
    """

    def __init__(self, law: LengthLaw, seed: int, group_size: int = 1, correlation: float = 0.0) -> None:
        if not 0 <= correlation < 1:
            raise ValueError(f"correlation must lie in [0, 1), got {correlation}")
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1, got {group_size}")
        self.law = law
        self.seed = seed
        self.group_size = group_size
        self.correlation = correlation
        self.block_prompts = max(1, _BLOCK_ROLLOUTS // group_size)
        self._blocks: dict[int, list[int]] = {}

    def length_tokens(self, prompt_id: int, member: int) -> int:
        """Tokens of the answer that `member` (from 0) gives to `prompt_id` (from 0)."""
        block, row = divmod(prompt_id, self.block_prompts)
        lengths = self._blocks.get(block)
        if lengths is None:
            lengths = self._keep(block)
        return lengths[row * self.group_size + member]

    def in_order(self) -> Iterator[int]:
        """All lengths: prompt by prompt, member by member, for ever."""
        for block in count():
            yield from self._draw(block).ravel().tolist()

    def _keep(self, block: int) -> list[int]:
        # Prompts come nearly in order; an older block could always be drawn again.
        if len(self._blocks) >= 2:
            del self._blocks[min(self._blocks)]
        self._blocks[block] = self._draw(block).ravel().tolist()
        return self._blocks[block]

    def _draw(self, block: int) -> Tokens:
        """Lengths of a block, `[prompts, members]`."""
        rng = stream(self.seed, "lengths", block)
        if self.correlation == 0:
            return self.law.quantile(rng.random((self.block_prompts, self.group_size)))
        shared = rng.standard_normal((self.block_prompts, 1))
        own = rng.standard_normal((self.block_prompts, self.group_size))
        normal = math.sqrt(self.correlation) * shared + math.sqrt(1 - self.correlation) * own
        # ndtr rounds to one beyond 8.3 standard deviations, where an unbounded law has no quantile.
        return self.law.quantile(np.minimum(ndtr(normal), 1 - 2.0**-53))
