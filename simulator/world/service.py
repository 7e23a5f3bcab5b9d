"""How long does each step take? Seconds as functions of what is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapreplace
from typing import Literal, TypeAlias

Seconds: TypeAlias = Callable[[int], float]
"""Tokens of one update -> seconds."""

Balance: TypeAlias = Literal["longest_first", "in_turn"]
"""How rollouts are dealt to data-parallel ranks: the longest first, each to the rank with the fewest tokens
so far; or one after another, as they come."""


def fixed_and_per_token(fixed_s: float, s_per_token: float = 0.0) -> Seconds:
    """A step that takes `fixed_s` and `s_per_token` for every token in it."""
    return partial(_linear, fixed_s, s_per_token)


def _linear(fixed_s: float, s_per_token: float, tokens: int) -> float:
    return fixed_s + s_per_token * tokens


def busiest_rank_tokens(tokens: Sequence[int], ranks: int, balance: Balance = "longest_first") -> int:
    r"""Tokens of the data-parallel rank that has most: the others wait for it.

    .. math:: \max_r \sum_{i\,\text{on}\,r} n_i \ge \max(\tfrac{1}{R} \textstyle\sum_i n_i,\ \max_i n_i)

    No rank can have less than the longest rollout, so ranks help little where one is far longer than the
    rest. The longest first is at most 4/3 - 1/(3 R) times the best deal.

    Args:
        tokens: n, of each rollout.
        ranks: R.

    References:
        Graham, Bounds on multiprocessing timing anomalies, 1969. https://doi.org/10.1137/0117039
    """
    if balance == "in_turn":
        return max((sum(tokens[rank::ranks]) for rank in range(min(ranks, len(tokens)))), default=0)
    loads = [0] * ranks
    for own in sorted(tokens, reverse=True):
        heapreplace(loads, loads[0] + own)
    return max(loads)
