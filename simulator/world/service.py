"""How long does each step take? Seconds as functions of what is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

Seconds: TypeAlias = Callable[[int], float]
"""Tokens of one update -> seconds."""


def fixed_and_per_token(fixed_s: float, s_per_token: float = 0.0) -> Seconds:
    """A step that takes `fixed_s` and `s_per_token` for every token in it."""
    return partial(_linear, fixed_s, s_per_token)


def _linear(fixed_s: float, s_per_token: float, tokens: int) -> float:
    return fixed_s + s_per_token * tokens
