"""How far is each estimator's mean gradient from the true one, by lag, and what does a tighter band cost?

A row is one estimator in one world at one lag. Averages and intervals over worlds are analysis's work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from algorithms.advantage import group_centred
from algorithms.aggregate import sequence_mean
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_sequence_product, per_token
from algorithms.trust import double_sided_mask, importance_weighted, ppo_clip
from simulator.exact.gradient import drift_nats, expected_gradient
from simulator.exact.world import LENGTH_TOKENS, VOCABULARY, Drift, World, name_of, random_walk, random_world

LAGS_UPDATES: Final = (0, 1, 4, 16)
WORLDS: Final = 16
EPS_LOW: Final = (0.1, 0.2, 0.3, 0.5, 0.8)
EPS_HIGH: Final = (0.1, 0.28, 0.5, 1.0, 3.0, 5.0)
TRUSTS: Final = {"double-sided-mask": double_sided_mask, "ppo-clip": ppo_clip}


def _unbounded(log_ratio: LogRatio) -> Estimator:
    return Estimator(
        advantage=group_centred,
        log_ratio=log_ratio,
        trust=importance_weighted,
        aggregate=sequence_mean,
    )


REFERENCES: Final[Mapping[str, Estimator]] = {
    "token-ratio": _unbounded(per_token),
    "sequence-ratio": _unbounded(per_sequence_product),
}
"""What nothing thrown away would give: the token ratio, biased by the stale prefix alone, and the rollout's
exact weight, unbiased at any lag and noisy."""


def table(
    estimators: Mapping[str, Estimator],
    *,
    lags: Sequence[int] = LAGS_UPDATES,
    worlds: int = WORLDS,
    seed: int = 0,
    drift: Drift = random_walk,
    into_batch: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> pd.DataFrame:
    r"""Exact bias and variance of every estimator, and of `REFERENCES`, in every world at every lag.

    A constant factor is the learning rate's business (a mean over tokens halves the gradient of two of them),
    so gradients are divided by `scale`, the component along the true gradient that the same estimator
    has on fresh data. All get the same exact advantages: those that differ by advantage alone agree.

    Args:
        lags: updates between the policy that sampled and the policy that learns.
        worlds: how many, of which the seed and the index make each.
        drift: where the older policies lie.
        into_batch: updates that the trainer has made on the batch before this one: pi_old is the policy of
            so many updates ago (of `lag`, if that is less: nothing is taken before it is sampled), so a
            clip against it acts.
        advance: called after each world.

    Returns:
        Columns seed, into_batch, drift (its name), world, estimator, lag, drift_nats (KL(mu || pi) a
        token), relative_bias :math:`|E g - \nabla J| / |\nabla J|`, cosine, component (of E g along the
        true gradient, in units of it: 1 is right, less is thrown away), std_per_rollout (in units of the
        true gradient's norm), masked, clipped, flat (shares of tokens by probability) and scale.

    Raises:
        ValueError: no lag, a negative one, no world, or a negative `into_batch`.
    """
    about = {"seed": seed, "into_batch": into_batch, "drift": name_of(drift)}
    return pd.DataFrame(
        [
            {**about, "world": index, "estimator": name, "lag": lag, **row}
            for index, past in _pasts(lags, worlds, seed, drift, into_batch, advance)
            for name, estimator in {**estimators, **REFERENCES}.items()
            for lag, row in _rows(estimator, past, lags, into_batch)
        ]
    )


def sweep(
    *,
    lags: Sequence[int] = LAGS_UPDATES,
    worlds: int = WORLDS,
    seed: int = 0,
    drift: Drift = random_walk,
    into_batch: int = 0,
    advance: Callable[[], object] = lambda: None,
    eps_low: Sequence[float] = EPS_LOW,
    eps_high: Sequence[float] = EPS_HIGH,
) -> pd.DataFrame:
    """`table` for both trust regions on the behaviour's token ratio, at every pair of half-widths.

    Returns:
        Columns of `table`, with trust (double-sided-mask or ppo-clip), eps_low and eps_high for estimator.

    Raises:
        ValueError: as `table`, or a half-width outside its range.
    """
    grid = list(itertools.product(TRUSTS, eps_low, eps_high))
    made = [TRUSTS[trust](low, high) for trust, low, high in grid]
    about = {"seed": seed, "into_batch": into_batch, "drift": name_of(drift)}
    return pd.DataFrame(
        [
            {
                **about,
                "world": index,
                "trust": trust,
                "eps_low": low,
                "eps_high": high,
                "lag": lag,
                **row,
            }
            for index, past in _pasts(lags, worlds, seed, drift, into_batch, advance)
            for (trust, low, high), region in zip(grid, made, strict=True)
            for lag, row in _rows(
                Estimator(
                    advantage=group_centred, log_ratio=per_token, trust=region, aggregate=sequence_mean
                ),
                past,
                lags,
                into_batch,
                rollouts_a_batch=VOCABULARY**LENGTH_TOKENS,
            )
        ]
    )


def _pasts(
    lags: Sequence[int],
    worlds: int,
    seed: int,
    drift: Drift,
    into_batch: int,
    advance: Callable[[], object],
) -> Iterator[tuple[int, list[World]]]:
    """Each world with its older selves; what one world draws depends on the seed and its index alone."""
    if not lags or min(lags) < 0 or worlds < 1:
        raise ValueError(f"needs lags of at least 0 and a world, got lags {list(lags)} and {worlds} worlds")
    if into_batch < 0:
        raise ValueError(f"into_batch must be at least 0, got {into_batch}")
    for index in range(worlds):
        of_world, of_drift = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index, purpose)))
            for purpose in range(2)
        )
        yield index, drift(random_world(of_world), max(lags), of_drift)
        advance()


def _rows(
    estimator: Estimator,
    past: list[World],
    lags: Sequence[int],
    into_batch: int,
    *,
    rollouts_a_batch: int = 1,
) -> Iterator[tuple[int, dict[str, float]]]:
    world, true = past[0], past[0].gradient()
    length = float(true.norm())
    found = {
        lag: expected_gradient(
            estimator,
            world,
            past[lag],
            old=past[min(into_batch, lag)],
            rollouts_a_batch=rollouts_a_batch,
        )
        for lag in {0, *lags}
    }
    # The sign stays: an estimator that runs downhill on fresh data shows a component of -1. One without
    # any gradient on fresh data has no scale of its own.
    scale = abs(float((found[0].mean * true).sum())) / length**2 or 1.0
    for lag in lags:
        mean = found[lag].mean / scale
        along, norm = float((mean * true).sum()), float(mean.norm())
        yield (
            lag,
            {
                "drift_nats": drift_nats(world, past[lag]),
                "relative_bias": float((mean - true).norm()) / length,
                "cosine": along / (norm * length) if norm else 0.0,
                "component": along / length**2,
                "std_per_rollout": math.sqrt(found[lag].variance) / scale / length,
                "masked": found[lag].masked,
                "clipped": found[lag].clipped,
                "flat": found[lag].flat,
                "scale": scale,
            },
        )
