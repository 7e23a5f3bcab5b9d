"""What should a trust region do to one token? Every rule in plain floats, and tokens to try it on."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from algorithms.delta import delta_clip
from algorithms.dppo import kl_mask, tv_mask
from algorithms.gmpo import geometric_mean_clip
from algorithms.opsm import off_policy_sequence_mask
from algorithms.sapo import soft_gate
from algorithms.trust import (
    TrustRegion,
    double_sided_mask,
    double_sided_mask_undetached,
    dual_clip,
    importance_weighted,
    ppo_clip,
    score,
)
from algorithms.weighting import clipped_weight, soft_weight, tapered_off_policy, truncated_weight


class Token(NamedTuple):
    """One sampled token, in probabilities; the half-widths of the region that it meets."""

    pi: float
    mu: float
    advantage: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.pi / self.mu

    @property
    def nats(self) -> float:
        return math.log(self.ratio)

    @property
    def good(self) -> bool:
        return self.advantage > 0


class Rule(NamedTuple):
    """A trust region of two half-widths, and what a token's gradient is in units of its advantage."""

    region: Callable[[float, float], TrustRegion]
    weight: Callable[[Token], float]
    """d surrogate / d log pi over A; zero exactly where the rule says that a token has no gradient."""
    antisymmetric: bool = False
    """Is the surrogate of -A minus that of A?"""
    steps: bool = True
    """Does the gradient jump, so that the last digit may decide on an edge?"""


def clipped(t: Token) -> bool:
    return t.ratio > 1 + t.high if t.good else t.ratio < 1 - t.low


def beyond(t: Token) -> bool:
    """Above a cap of 1 + 2 high on bad tokens."""
    return not t.good and t.ratio > 1 + 2 * t.high


def in_band(t: Token) -> bool:
    return 1 - t.low < t.ratio < 1 + t.high


def pushed(t: Token) -> bool:
    return t.pi > t.mu if t.good else t.pi < t.mu


def binary_kl(mu: float, pi: float) -> float:
    return mu * math.log(mu / pi) + (1 - mu) * math.log((1 - mu) / (1 - pi))


def faded(steepness: float, t: Token) -> float:
    e = math.exp(-steepness * abs(t.ratio - 1))
    return 4 * e / (1 + e) ** 2 * t.ratio


def reshaped(k: float, lam: float, t: Token) -> float:
    return math.exp(lam + k * t.nats - lam * t.ratio)


RULES: dict[str, Rule] = {
    "ppo": Rule(ppo_clip, lambda t: 0 if clipped(t) else t.ratio),
    "dual": Rule(
        lambda low, high: dual_clip(low, high, cap=1 + 2 * high),
        lambda t: 0 if clipped(t) or beyond(t) else t.ratio,
    ),
    "delta": Rule(
        lambda low, high: delta_clip(low, high, delta=1 + 2 * high),
        lambda t: 0 if clipped(t) or beyond(t) else t.ratio,
    ),
    "dis": Rule(double_sided_mask, lambda t: t.ratio if in_band(t) else 0, antisymmetric=True),
    "dis undetached": Rule(
        double_sided_mask_undetached,
        lambda t: t.ratio * (1 + math.log(t.pi)) if in_band(t) else 0,
        antisymmetric=True,
    ),
    "cispo": Rule(
        clipped_weight,
        lambda t: min(max(t.ratio, 1 - t.low), 1 + t.high),
        antisymmetric=True,
        steps=False,
    ),
    "truncated": Rule(
        lambda _, high: truncated_weight(cap=1 + high),
        lambda t: min(t.ratio, 1 + t.high),
        antisymmetric=True,
        steps=False,
    ),
    "dppo tv": Rule(
        lambda low, _: tv_mask(low, cap=math.inf),
        lambda t: 0 if pushed(t) and abs(t.pi - t.mu) > t.low else t.ratio,
    ),
    "dppo kl": Rule(
        lambda low, _: kl_mask(low, cap=math.inf),
        lambda t: 0 if pushed(t) and binary_kl(t.mu, t.pi) > t.low else t.ratio,
    ),
    "gmpo": Rule(
        geometric_mean_clip,
        lambda t: 0 if (t.nats > t.high if t.good else t.nats < -t.low) else t.ratio,
    ),
    "opsm": Rule(
        lambda low, high: off_policy_sequence_mask(ppo_clip(low, high), delta=low),
        lambda t: 0 if clipped(t) or (not t.good and -t.nats > t.low) else t.ratio,
    ),
    "topr": Rule(lambda *_: tapered_off_policy, lambda t: 1 if t.good else min(t.ratio, 1), steps=False),
    "sapo": Rule(
        lambda low, high: soft_gate(tau_good=low, tau_bad=high),
        lambda t: faded(t.low if t.good else t.high, t),
        steps=False,
    ),
    "vespo": Rule(
        lambda *_: soft_weight(),
        lambda t: reshaped(2.0, 3.0, t) if t.good else reshaped(3.0, 2.0, t),
        steps=False,
    ),
    "no region": Rule(lambda *_: importance_weighted, lambda t: t.ratio, antisymmetric=True, steps=False),
    "no correction": Rule(lambda *_: score, lambda _: 1, antisymmetric=True, steps=False),
}


def crowd(seed: int, low: float, high: float) -> list[Token]:
    """Likely and rare tokens that moved a little or far, with good and bad advantages."""
    draw = random.Random(seed)
    found = []
    for spread in (0.2, 0.2, 2.0, 2.0) * 12:
        log_pi = -draw.uniform(1e-3, draw.choice((1.0, 12.0)))
        log_mu = min(log_pi - draw.gauss(0, spread), -1e-3)
        found.append(Token(math.exp(log_pi), math.exp(log_mu), draw.gauss(0, 3), low, high))
    return found


def decided(rule: Rule, t: Token) -> bool:
    """Does the rule say the same of tokens a rounding error away?"""
    around = (t._replace(pi=t.pi * (1 + s)) for s in (0, -1e-8, 1e-8))
    return not rule.steps or len({rule.weight(x) == 0 for x in around}) == 1
