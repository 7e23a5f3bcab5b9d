"""Which item does a prompt's number stand for? Each once an epoch, in a new order; some are never trained on.

*Choices*: without items of their own to measure on, every tenth is held out. Training goes through all
others in a random order, and through another order each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar, final

import numpy as np

from full_runs.tasks.environment import HELD_OUT

Item = TypeVar("Item")
TENTH: Final = 10


@final
class Order(Generic[Item]):
    """Items by number.

    Args:
        trained: what is trained on.
        held_out: what is measured on; None takes every tenth of `trained`.
        seed: of the order.

    Raises:
        ValueError: nothing to train on, or fewer than ten items, from which a tenth should be held out.
    """

    def __init__(self, trained: Sequence[Item], held_out: Sequence[Item] | None, *, seed: int) -> None:
        if held_out is None:
            if len(trained) < TENTH:
                raise ValueError(f"{len(trained)} questions: with fewer than {TENTH} none can be held out")
            held_out = trained[TENTH - 1 :: TENTH]
            trained = [item for place, item in enumerate(trained) if place % TENTH != TENTH - 1]
        if not trained or not held_out:
            raise ValueError(
                f"{len(trained)} questions to train on and {len(held_out)} held out: some are needed"
            )
        self.trained = tuple(trained)
        self.held_out = tuple(held_out)
        self._seed = seed
        self._order = lru_cache(maxsize=4)(self._new_order)

    def of(self, prompt_id: int) -> Item:
        """What a prompt's number stands for."""
        if prompt_id >= HELD_OUT:
            return self.held_out[(prompt_id - HELD_OUT) % len(self.held_out)]
        epoch, place = divmod(prompt_id, len(self.trained))
        return self.trained[self._order(epoch)[place]]

    def _new_order(self, epoch: int) -> list[int]:
        order: list[int] = np.random.default_rng([self._seed, epoch]).permutation(len(self.trained)).tolist()
        return order
