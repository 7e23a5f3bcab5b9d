"""Where does randomness come from? One generator a purpose, all from one seed.

Streams are told apart by a fixed key, not by the order in which they are asked for, so a new purpose
or a new entity never changes what another draws. Adding a rank to a seed would: seed 42 on
rank 3 and seed 45 on rank 0 would draw the same numbers
(https://github.com/meta-pytorch/torchtune/pull/177).
"""

from __future__ import annotations

from typing import Final

import numpy as np

_KEYS: Final = {
    "lengths": 0,
    "prompts": 1,
    "environment": 2,
    "failures": 3,
    "sampling": 4,
    "selection": 5,
    "validation": 6,
}


def stream(seed: int, purpose: str, *entity: int) -> np.random.Generator:
    """The generator of one purpose, and of one entity within it.

    Args:
        seed: of the run, at least 0.
        purpose: lengths, prompts, environment, failures, sampling, selection or validation.
        entity: numbers that name who draws: an engine, a block of prompts, ...

    Errors:
        ValueError: an unknown purpose.

    References:
        https://numpy.org/doc/stable/reference/random/bit_generators/generated/numpy.random.SeedSequence.html
    """
    if purpose not in _KEYS:
        raise ValueError(f"no stream is called {purpose!r}; there are {sorted(_KEYS)}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_KEYS[purpose], *entity)))
