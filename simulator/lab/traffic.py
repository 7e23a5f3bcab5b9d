"""Which rollouts does an update train on, and which weights made which part of each?

The one thing that a schedule tells the learner. It may come from the simulated pipeline (`bridge`), from an
exact lag (`imposed`) or from a recorded run (`replay`); nothing that learns can tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray


class Part(NamedTuple):
    """Consecutive tokens of one rollout that one version of the weights sampled."""

    version: int
    start_token: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The rollouts of one optimizer update, in the order in which the trainer got them.

    Raises:
        ValueError: columns of unequal length, or a rollout without tokens or without a first part.
    """

    version: int
    """Of the trainer, before the update; lags are counted from here."""
    index_in_batch: int
    """0 for the first update on a batch; pi_old is what the trainer held then."""
    rollout_ids: NDArray[np.int64]
    prompt_ids: NDArray[np.int64]
    group_ids: NDArray[np.int64]
    length_tokens: Sequence[int]
    """Simulated tokens of each rollout, however many its small model says."""
    parts: Sequence[Sequence[Part]]
    """Of each rollout, in order; the first begins at token 0, and versions never decrease."""

    def __post_init__(self) -> None:
        columns = ("rollout_ids", "prompt_ids", "group_ids", "length_tokens", "parts")
        lengths = {name: len(getattr(self, name)) for name in columns}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"an update's columns have unequal lengths: {lengths}")
        for rollout, tokens, parts in zip(self.rollout_ids, self.length_tokens, self.parts, strict=True):
            if tokens < 1 or not parts or parts[0].start_token != 0:
                raise ValueError(f"rollout {rollout} has {tokens} tokens in the parts {list(parts)}")

    def __len__(self) -> int:
        return len(self.rollout_ids)

    def versions(self, said_tokens: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Version that samples each token of what is said, spread evenly over the simulated rollout.

        Token t of T said ones stands for simulated token floor(t L / T).

        Args:
            said_tokens: T of each rollout, at least 1.
            width: columns of the answer; those from T on repeat the last version.

        Returns:
            `[B, width]`.
        """
        first = np.fromiter((parts[0].version for parts in self.parts), np.int64, len(self))
        table = np.repeat(first[:, None], width, axis=1)
        for index in (i for i, parts in enumerate(self.parts) if len(parts) > 1):
            row, said, tokens = table[index], int(said_tokens[index]), self.length_tokens[index]
            for version, start in self.parts[index][1:]:
                # The first t with floor(t L / T) >= start.
                row[-(-start * said // tokens) :] = version
        return table
