r"""How fast are the engines? Five constants, none negative, fitted by least squares to what they served.

Least squares and not something that forgives outliers: the constants are to foretell sums of times, so
the mean must be right, slow moments included. Intervals are over blocks of rollouts in the order in which
they ended, drawn anew, since neighbours share their engine's moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from analysis.statistics.intervals import Interval
from full_runs.calibrate.observe import Served, Step

Floats = NDArray[np.float64]

NAMES: Final = ("request_s", "prefill_s", "step_fixed_s", "step_s_per_rollout", "step_s_per_kv_token")
"""Seconds of a request, standstill of an engine at a prefill, and a, b, c of a decode step."""
BLOCKS: Final = 20
DRAWS: Final = 400
_RIDGE: Final = 1e-12
"""Of the largest diagonal element: two columns that are one share their weight instead of failing."""


def speed(own: Served, *, seed: int = 0) -> dict[str, Interval]:
    """The constants of `NAMES`, in seconds, with 95 % intervals.

    Raises:
        ValueError: fewer rollouts than blocks.
    """
    if len(own.seconds) < BLOCKS:
        raise ValueError(f"{len(own.seconds)} rollouts were finished in the part to fit; needed are {BLOCKS}")
    design = _design(own)
    places = np.array_split(np.arange(len(own.seconds)), BLOCKS)
    squares = np.stack([design[p].T @ design[p] for p in places])
    products = np.stack([design[p].T @ own.seconds[p] for p in places])
    drawn = np.random.default_rng(seed).multinomial(BLOCKS, [1 / BLOCKS] * BLOCKS, size=DRAWS)
    samples = np.stack([_solved(np.tensordot(w, squares, 1), w @ products) for w in drawn])
    found = _solved(squares.sum(axis=0), products.sum(axis=0))
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    return {
        name: Interval(
            estimate=float(found[i]),
            low=float(low[i]),
            high=float(high[i]),
            n=len(own.seconds),
            confidence=0.95,
            method=f"bootstrap over {BLOCKS} blocks of rollouts",
        )
        for i, name in enumerate(NAMES)
    }


def step_of(constants: Mapping[str, Interval]) -> Step:
    """The decode step that the constants make: a + b n + c K seconds; one second where they make none."""
    a, b, c = (constants[name].estimate for name in NAMES[2:])

    def step_s(running: Floats, held_tokens: Floats) -> Floats:
        seconds = a + b * running + c * held_tokens
        return np.where(seconds > 0, seconds, 1.0)

    return step_s


def foretold_s(own: Served, constants: Mapping[str, Interval]) -> Floats:
    """Seconds that each rollout should have taken, shape [n]."""
    return np.asarray(_design(own) @ np.array([constants[name].estimate for name in NAMES]))


def _design(own: Served) -> Floats:
    """One column a constant, in the order of `NAMES`; shape [n, 5]."""
    return np.column_stack(
        [own.requests, own.arrivals, own.tokens, own.tokens * own.running, own.tokens * own.held_tokens]
    )


def _solved(square: Floats, product: Floats) -> Floats:
    """The least squares without negative numbers, from the normal equations scaled to a unit diagonal."""
    scale = np.sqrt(np.where(np.diag(square) > 0, np.diag(square), 1.0))
    scaled = square / np.outer(scale, scale) + _RIDGE * np.eye(len(scale))
    root = np.linalg.cholesky(scaled + np.diag((np.diag(square) <= 0).astype(float)))
    found, _ = nnls(root.T, np.linalg.solve(root, product / scale))
    return np.asarray(found / scale)
