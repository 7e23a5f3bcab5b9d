r"""When does each rollout of a wave end, if all start at once in engines that share the load evenly?

While n rollouts run that have u tokens each, a step takes a + (b n + c n u) / G seconds on G engines. The
rollout of length l ends after l steps, at

.. math:: a l + \frac{1}{G} \sum_i \left( b \min(L_i, l) + \tfrac{c}{2} \min(L_i, l)^2 \right)

which is what the pipeline makes of one wave, without its events. Fits go through this form, because it is
smooth in its parameters and takes milliseconds; predictions go through the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from simulator.world.decoding import LoadDependent

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Of one engine among equal ones: seconds a step, a rollout and a token of keys and values."""

    fixed_s: float
    per_rollout_s: float
    per_kv_token_s: float = 0.0
    prefill_s_per_token: float = 0.0

    def spread_over(self, engines: int) -> LoadDependent:
        """One engine in place of so many that are loaded evenly (*choice*: real loads differ a little)."""
        return LoadDependent(
            step_fixed_s=self.fixed_s,
            step_s_per_rollout=self.per_rollout_s / engines,
            step_s_per_kv_token=self.per_kv_token_s / engines,
            prefill_s_per_token=self.prefill_s_per_token / engines,
        )


def ends_s(lengths_tokens: Floats, engine: LoadDependent) -> Floats:
    """Seconds until each rollout of a wave ends; prompts have no tokens.

    Args:
        lengths_tokens: (n,), any order.

    Returns:
        (n,), in the order of `lengths_tokens`.
    """
    order = np.argsort(lengths_tokens)
    tokens = np.asarray(lengths_tokens, dtype=np.float64)[order]
    longer = np.arange(len(tokens), 0, -1) - 1.0
    shared = np.cumsum(tokens) + longer * tokens
    held = np.cumsum(tokens**2) + longer * tokens**2
    ends = np.empty(len(tokens))
    ends[order] = (
        engine.step_fixed_s * tokens
        + engine.step_s_per_rollout * shared
        + 0.5 * engine.step_s_per_kv_token * held
    )
    return ends


def lognormal_sample(
    n: int, *, mean: float, sigma: float, cap: float, draws: int = 8, seed: int = 0
) -> Floats:
    """(draws, n) lengths that are smooth functions of `mean`, `sigma` and `cap`: common random numbers.

    Args:
        mean: of the law before it is capped, in tokens.
        sigma: standard deviation of the logarithm.
    """
    normal = ndtri(np.random.default_rng(seed).random((draws, n)))
    return np.minimum(mean * np.exp(sigma * normal - sigma**2 / 2), cap)


def trained_by_s(ready_s: Floats, train_s: float) -> float:
    """When is the last of these batches trained, one after another, each no sooner than it is ready?"""
    done_s = 0.0
    for ready in np.sort(ready_s):
        done_s = max(done_s, float(ready)) + train_s
    return done_s
