"""How does a prompt carry its number, so that the world knows it and the model that reads it does not?

A game is told the prompt and not its id. Here a prompt is its id enciphered, one to one, as eight hexadecimal
digits that look random: prompts of different ids differ, neighbours in id have nothing in common, and the
world gets the id back. What a world hides (a table, an accident) is a hash of such numbers.

The mixing is that of a 32-bit hash with known low bias, each step of which can be undone.

References:
    Wellons, Prospecting for hash functions, 2018. https://nullprogram.com/blog/2018/07/31/.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

BASE: Final = 16
DIGITS: Final = 8
IDS: Final = BASE**DIGITS
"""Prompts that there are; ids count from 0."""

_LOW: Final = IDS - 1
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B
_UNDO_FIRST, _UNDO_SECOND = pow(_FIRST, -1, IDS), pow(_SECOND, -1, IDS)
_STEP: Final = 0x9E3779B9
"""2^32 over the golden ratio: keeps a word of zeros from doing nothing."""


def enciphered(prompt_ids: NDArray[np.int64], *, seed: int) -> Int[Tensor, "B 8"]:
    """Prompt ids as digits 0 .. 15, the highest first.

    Args:
        seed: of the run; another seed gives the same ids other prompts.

    Raises:
        ValueError: an id below 0 or from `IDS` on.
    """
    ids = torch.from_numpy(np.asarray(prompt_ids, np.int64))
    if ((ids < 0) | (ids >= IDS)).any():
        raise ValueError(f"prompt ids must lie in 0 .. {IDS - 1}, got {ids.min():d} .. {ids.max():d}")
    places = BASE ** torch.arange(DIGITS - 1, -1, -1)
    return _mixed(ids ^ _key(seed))[:, None] // places % BASE


def number(prompts: Int[Tensor, "B 8"]) -> Int[Tensor, " B"]:
    """The digits read as one number in 0 .. `IDS` - 1: evenly spread, whatever the ids."""
    places = BASE ** torch.arange(DIGITS - 1, -1, -1, device=prompts.device)
    return (prompts * places).sum(-1)


def deciphered(prompts: Int[Tensor, "B 8"], *, seed: int) -> Int[Tensor, " B"]:
    """The ids whose prompts these are."""
    mixed = _unshifted(number(prompts), 16) * _UNDO_SECOND & _LOW
    mixed = _unshifted(mixed, 15) * _UNDO_FIRST & _LOW
    return _unshifted(mixed, 16) ^ _key(seed)


def hashed(*words: Int[Tensor, "*S"]) -> Int[Tensor, "*S"]:
    """A number in 0 .. 2^32 - 1 that looks drawn at random for each combination of words, order included."""
    total = torch.zeros_like(words[0])
    for word in words:
        total = _mixed((total + word + _STEP) & _LOW)
    return total


def _key(seed: int) -> int:
    return int(hashed(torch.tensor(seed & _LOW), torch.tensor(seed >> 32 & _LOW)))


def _mixed(x: Int[Tensor, "*S"]) -> Int[Tensor, "*S"]:
    # A product of 64 bits wraps around; its low 32 bits are right.
    x = (x ^ x >> 16) * _FIRST & _LOW
    x = (x ^ x >> 15) * _SECOND & _LOW
    return x ^ x >> 16


def _unshifted(y: Int[Tensor, "*S"], bits: int) -> Int[Tensor, "*S"]:
    """x of y = x ^ x >> bits, for 32-bit x and bits >= 11."""
    return y ^ y >> bits ^ y >> 2 * bits
