"""What should a correction do to a rollout? Every rule in plain floats, and rollouts to try it on."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from algorithms.correction import Correction, sequence_truncated, token_ratio, token_truncated, unweighted
from algorithms.rejection import geometric_band, k3_below, kpop, sequence_band, token_band, veto

Rollout = list[tuple[float, float]]
"""(pi_old, mu) of each action token."""


class Rule(NamedTuple):
    """A correction of two bounds, floor in (0, 1) and ceiling above 1, and the weights it gives."""

    correction: Callable[[float, float], Correction]
    weights: Callable[[Rollout, float, float], list[float]]
    drops: bool = True


def ratios(rollout: Rollout) -> list[float]:
    return [old / mu for old, mu in rollout]


def mean_k3(rollout: Rollout) -> float:
    return sum(r - 1 - math.log(r) for r in ratios(rollout)) / len(rollout)


def binary_kl(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def worst_kl(old: float, mu: float) -> float:
    return max(binary_kl(old, mu), binary_kl(mu, old))


def if_kept(keep: bool, weights: list[float]) -> list[float]:
    return weights if keep else [0.0] * len(weights)


def product(x: Rollout) -> float:
    return math.prod(ratios(x))


RULES: dict[str, Rule] = {
    "icepop": Rule(
        lambda f, c: token_band(floor=f, ceiling=c),
        lambda x, f, c: [r if f <= r <= c else 0.0 for r in ratios(x)],
    ),
    "icepop without weights": Rule(
        lambda f, c: token_band(floor=f, ceiling=c, weight=unweighted),
        lambda x, f, c: [1.0 if f <= r <= c else 0.0 for r in ratios(x)],
    ),
    "kpop": Rule(
        lambda f, _: kpop(1 - f),
        lambda x, f, _: [1.0 if worst_kl(*t) <= 1 - f else 0.0 for t in x],
    ),
    "sequence mis": Rule(
        lambda f, c: sequence_band(floor=f, ceiling=c),
        lambda x, f, c: if_kept(f <= product(x) <= c, [product(x)] * len(x)),
    ),
    "geometric": Rule(
        lambda f, c: geometric_band(floor=f, ceiling=c),
        lambda x, f, c: if_kept(f <= product(x) ** (1 / len(x)) <= c, [1.0] * len(x)),
    ),
    "geometric, by token": Rule(
        lambda f, c: geometric_band(floor=f, ceiling=c, weight=token_ratio),
        lambda x, f, c: if_kept(f <= product(x) ** (1 / len(x)) <= c, ratios(x)),
    ),
    "k3": Rule(
        lambda f, _: k3_below(1 - f),
        lambda x, f, _: if_kept(mean_k3(x) <= 1 - f, [1.0] * len(x)),
    ),
    "veto": Rule(
        lambda f, _: veto(f),
        lambda x, f, _: if_kept(min(ratios(x)) >= f, [1.0] * len(x)),
    ),
    "token tis": Rule(
        lambda _, c: token_truncated(c),
        lambda x, _, c: [min(r, c) for r in ratios(x)],
        drops=False,
    ),
    "sequence tis": Rule(
        lambda _, c: sequence_truncated(c),
        lambda x, _, c: [min(product(x), c)] * len(x),
        drops=False,
    ),
}


def crowd(seed: int) -> list[Rollout]:
    """Rollouts of one to five tokens on which trainer and engine agree closely, or hardly."""
    draw = random.Random(seed)
    found = []
    for spread in (0.05, 0.3, 1.0) * 8:
        log_mu = [-draw.uniform(1e-3, draw.choice((1.0, 8.0))) for _ in range(draw.randint(1, 5))]
        tokens = ((min(x + draw.gauss(0, spread), -1e-3), x) for x in log_mu)
        found.append([(math.exp(old), math.exp(mu)) for old, mu in tokens])
    return found


def decided(rule: Rule, x: Rollout, floor: float, ceiling: float) -> bool:
    """Does the rule say the same with bounds a rounding error away?"""
    near = (rule.weights(x, floor * (1 + s), ceiling * (1 + s)) for s in (-1e-8, 0, 1e-8))
    return len({tuple(w == 0 for w in weights) for weights in near}) == 1
