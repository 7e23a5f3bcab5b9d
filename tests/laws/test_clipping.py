"""Clipping against the published formulas and against slow twins in plain floats."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.trust import (
    double_sided_mask,
    double_sided_mask_undetached,
    dual_clip,
    importance_weighted,
    ppo_clip,
)

T64 = torch.float64
log_ratios = st.floats(-15, 15)
advantages = st.floats(-10, 10).filter(lambda a: a == 0 or abs(a) > 1e-9)
log_pis = st.floats(-12, 0)
lows = st.floats(0.01, 0.99)
highs = st.floats(0.01, 50)


def evaluate(trust, log_ratio: float, advantage: float, log_pi: float) -> tuple[float, float]:
    """Surrogate and its derivative by log pi, of one token."""
    log_probs = torch.tensor([[log_pi]], dtype=T64, requires_grad=True)
    behaviour = torch.tensor([[log_pi - log_ratio]], dtype=T64)
    value = trust(log_probs - behaviour, torch.tensor([[advantage]], dtype=T64), log_probs)
    (gradient,) = torch.autograd.grad(value.sum(), log_probs)
    return value.item(), gradient.item()


def near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def far_from(ratio: float, *edges: float) -> bool:
    return all(abs(ratio - edge) > 1e-9 * (1 + edge) for edge in edges)


@given(log_ratios, advantages, log_pis, lows, highs)
def test_ppo_clip_is_the_published_minimum(x, a, lp, low, high):
    r = math.exp(x)
    clipped = min(max(r, 1 - low), 1 + high)
    value, gradient = evaluate(ppo_clip(low, high), x, a, lp)
    assert near(value, min(r * a, clipped * a))
    if far_from(r, 1 - low, 1 + high):
        bound = (a > 0 and r > 1 + high) or (a < 0 and r < 1 - low)
        assert near(gradient, 0.0 if bound else r * a)


@given(log_ratios, advantages, log_pis, lows, highs, st.floats(1.01, 50))
def test_dual_clip_is_the_published_maximum(x, a, lp, low, high, cap):
    r = math.exp(x)
    plain = min(r * a, min(max(r, 1 - low), 1 + high) * a)
    wanted = max(plain, cap * a) if a < 0 else plain
    value, gradient = evaluate(dual_clip(low, high, cap=cap), x, a, lp)
    assert near(value, wanted)
    if far_from(r, 1 - low, 1 + high, cap):
        bound = (a > 0 and r > 1 + high) or (a < 0 and (r < 1 - low or r > cap))
        assert near(gradient, 0.0 if bound else r * a)


@given(log_ratios, advantages, log_pis, lows, highs)
def test_double_sided_mask_is_its_slow_twin(x, a, lp, low, high):
    r = math.exp(x)
    if not far_from(r, 1 - low, 1 + high):
        return
    f = r if 1 - low < r < 1 + high else 0.0
    value, gradient = evaluate(double_sided_mask(low, high), x, a, lp)
    assert near(value, f * a * lp)
    assert near(gradient, f * a)
    literal, flipping = evaluate(double_sided_mask_undetached(low, high), x, a, lp)
    assert near(literal, value)
    assert near(flipping, f * a * (1 + lp))


@given(log_ratios, advantages, log_pis, lows, highs)
def test_the_mask_treats_both_signs_alike(x, a, lp, low, high):
    mask = double_sided_mask(low, high)
    value, gradient = evaluate(mask, x, a, lp)
    assert evaluate(mask, x, -a, lp) == (-value, -gradient)


@given(log_ratios, advantages, log_pis)
def test_without_bounds_every_region_is_plain_importance_weighting(x, a, lp):
    plain = evaluate(importance_weighted, x, a, lp)
    for trust in (ppo_clip(1 - 1e-12, 1e8), dual_clip(1 - 1e-12, 1e8, cap=math.inf)):
        value, gradient = evaluate(trust, x, a, lp)
        assert near(value, plain[0])
        assert near(gradient, plain[1])
    assert near(evaluate(double_sided_mask(1.0, math.inf), x, a, lp)[1], plain[1])


@given(log_ratios, advantages, log_pis, lows, highs)
def test_an_unreachable_cap_makes_dual_clip_ppo(x, a, lp, low, high):
    assert evaluate(dual_clip(low, high, cap=math.inf), x, a, lp) == evaluate(ppo_clip(low, high), x, a, lp)


@given(log_ratios, log_pis, lows, highs, st.floats(1.0, 3.0))
def test_a_wider_band_keeps_whatever_a_narrower_one_kept(x, lp, low, high, widening):
    narrow = evaluate(double_sided_mask(low, high), x, 1.0, lp)[1]
    wide = evaluate(double_sided_mask(min(1.0, low * widening), high * widening), x, 1.0, lp)[1]
    assert wide == narrow or narrow == 0.0
