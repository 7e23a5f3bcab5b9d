"""What a trust region does to one token, against its rule in plain floats, over everything it may meet.

Rejections and truncations between engine and trainer are in `test_rejection`; that denominators are right
under every split into micro-batches and ranks is a law (`shards_add_up`) of `test_estimators`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.delta import delta_clip
from algorithms.dppo import kl_mask, tv_mask
from algorithms.estimator import Estimator
from algorithms.gmpo import geometric_mean_clip
from algorithms.grpo import grpo_dis
from algorithms.opsm import off_policy_sequence_mask
from algorithms.sapo import soft_gate
from algorithms.trust import (
    TrustRegion,
    double_sided_mask,
    double_sided_mask_undetached,
    dual_clip,
    importance_weighted,
    inside,
    ppo_clip,
)
from algorithms.weighting import clipped_weight, truncated_weight
from tests.algorithms.make import batch, rows
from tests.laws.compositions import loss_and_gradient
from tests.laws.rules import RULES, Rule, Token, crowd, decided, in_band, pushed

T64 = torch.float64

every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
crowds = given(
    crowd=st.builds(
        crowd, st.integers(0, 10**6), st.floats(0.01, 0.99), st.floats(0.01, 2) | st.floats(2, 50)
    )
)
some = settings(max_examples=6)


def evaluate(region: TrustRegion, *tokens: Token) -> list[tuple[float, float]]:
    """Surrogate and its derivative by log pi, of rollouts of one token."""
    leaf = torch.tensor([[math.log(t.pi)] for t in tokens], dtype=T64, requires_grad=True)
    mu = torch.tensor([[math.log(t.mu)] for t in tokens], dtype=T64)
    value = region(leaf - mu, torch.tensor([[t.advantage] for t in tokens], dtype=T64), leaf)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return list(zip(value.flatten().tolist(), gradient.flatten().tolist(), strict=True))


def near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


@every_rule
@some
@crowds
def test_the_gradient_is_what_the_rule_says_and_zero_exactly_where_it_says_zero(rule: Rule, crowd):
    region = rule.region(crowd[0].low, crowd[0].high)
    for t, (_, gradient) in zip(crowd, evaluate(region, *crowd), strict=True):
        wanted = rule.weight(t)
        if not decided(rule, t):
            continue
        if wanted == 0:
            assert gradient == 0, t
        elif abs(wanted) > 1e-9 * t.ratio:  # else a soft gate may round to zero: it fades, it never stops
            assert gradient != 0, t
            assert math.isclose(gradient, wanted * t.advantage, rel_tol=1e-6), t


@every_rule
@some
@crowds
def test_where_the_weight_is_the_ratio_nothing_differs_from_no_region_at_all(rule: Rule, crowd):
    kept = [t for t in crowd if decided(rule, t) and rule.weight(t) == t.ratio]
    if kept:
        region = rule.region(kept[0].low, kept[0].high)
        plain = evaluate(importance_weighted, *kept)
        for (_, gradient), (_, wanted) in zip(evaluate(region, *kept), plain, strict=True):
            assert near(gradient, wanted)


def test_every_rule_that_stops_a_gradient_is_seen_to_stop_and_to_pass_some():
    """The two tests above would say nothing of a rule that never met its other side."""
    tokens = [t for seed in range(5) for t in crowd(seed, 0.2, 0.5)]
    for name, rule in RULES.items():
        stopped = sum(rule.weight(t) == 0 for t in tokens) / len(tokens)
        assert (0.03 < stopped < 0.9) if rule.steps else stopped == 0, name


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.antisymmetric])
@some
@crowds
def test_whoever_ignores_the_sign_is_antisymmetric_in_the_advantage(name: str, crowd):
    region = RULES[name].region(crowd[0].low, crowd[0].high)
    mirrored = evaluate(region, *[t._replace(advantage=-t.advantage) for t in crowd])
    assert mirrored == [(-value, -gradient) for value, gradient in evaluate(region, *crowd)]


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.antisymmetric])
def test_the_others_have_a_counterexample_at_ratio_four_or_a_quarter(name: str):
    """PPO at 4: a good token is clipped to 1.28 and has no gradient, a bad one loses 4 and has all of it."""
    region = RULES[name].region(0.2, 0.28)
    good = [Token(0.8, 0.2, 1.0, 0.2, 0.28), Token(0.2, 0.8, 1.0, 0.2, 0.28)]
    up, down = evaluate(region, *good), evaluate(region, *[t._replace(advantage=-1.0) for t in good])
    assert any(not near(u[1], -d[1]) for u, d in zip(up, down, strict=True))
    if name == "ppo":
        assert up[0] == (pytest.approx(1.28), 0.0)
        assert down[0] == (pytest.approx(-4.0), pytest.approx(-4.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [(0.2, 0.28), (0.3, 5.0), (0.8, 3.0), (0.1, 0.1), (3e-4, 4e-4)])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_edges_are_open_or_harmless_however_their_log_was_taken(eps, dtype: torch.dtype, advantage: float):
    """DIS is open. PPO and CISPO meet at their edges: value (PPO) and gradient (CISPO) are the edge's."""
    low, high = eps
    ratios = torch.tensor([[1 - low, 1 + high]], dtype=dtype)
    digits = 4 * torch.finfo(dtype).eps * (1 + high)
    for nats in (ratios.log(), torch.log1p(torch.tensor([[-low, high]], dtype=dtype))):
        leaf = torch.full_like(ratios, -1.0, requires_grad=True)

        def at_edges(region: TrustRegion, nats=nats, leaf=leaf) -> tuple[torch.Tensor, torch.Tensor]:
            value = region(nats + (leaf - leaf.detach()), torch.full_like(leaf, advantage), leaf)
            return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]

        for region in (double_sided_mask(low, high), double_sided_mask_undetached(low, high)):
            assert not torch.cat(at_edges(region)).any()
        value, gradient = at_edges(ppo_clip(low, high))
        torch.testing.assert_close(value, ratios * advantage, rtol=0, atol=digits)
        assert ((gradient == 0) | ((gradient - ratios * advantage).abs() <= digits)).all()
        _, gradient = at_edges(clipped_weight(low, high))
        torch.testing.assert_close(gradient, ratios * advantage, rtol=0, atol=digits)


@some
@crowds
def test_without_bounds_every_region_is_plain_importance_weighting(crowd):
    plain = evaluate(importance_weighted, *crowd)
    for region in (
        ppo_clip(1 - 1e-12, 1e8),
        dual_clip(1 - 1e-12, 1e8, cap=math.inf),
        delta_clip(1 - 1e-12, 1e8, delta=math.inf),
        double_sided_mask(1.0, math.inf),
        clipped_weight(1.0, math.inf),
        truncated_weight(cap=math.inf),
        tv_mask(1.0, cap=math.inf),
        kl_mask(math.inf, cap=math.inf),
        geometric_mean_clip(math.inf, math.inf),
        off_policy_sequence_mask(importance_weighted, delta=math.inf),
        soft_gate(tau_good=1e-9, tau_bad=1e-9),
    ):
        for (_, gradient), (_, wanted) in zip(evaluate(region, *crowd), plain, strict=True):
            assert math.isclose(gradient, wanted, rel_tol=1e-5)


@some
@crowds
def test_with_no_room_at_all_only_what_the_rule_leaves_is_left(crowd):
    """Half-widths to zero: clips keep what moves back, masks keep nothing, CISPO is REINFORCE."""
    tiny = 1e-12
    left: list[tuple[TrustRegion, Callable[[Token], float]]] = [
        (ppo_clip(tiny, tiny), lambda t: 0 if pushed(t) else t.ratio),
        (tv_mask(tiny, cap=math.inf), lambda t: 0 if pushed(t) else t.ratio),
        (dual_clip(tiny, tiny, cap=1 + tiny), lambda t: t.ratio if t.good and t.ratio < 1 else 0),
        (double_sided_mask(tiny, tiny), lambda _: 0),
        (clipped_weight(tiny, tiny), lambda _: 1),
        (truncated_weight(floor=1.0, cap=1.0), lambda _: 1),
        (soft_gate(tau_good=1e12, tau_bad=1e12), lambda _: 0),
    ]
    moved = [t for t in crowd if abs(t.ratio - 1) > 1e-6]
    for region, weight in left:
        for t, (_, gradient) in zip(moved, evaluate(region, *moved), strict=True):
            assert near(gradient, weight(t) * t.advantage), t


@pytest.mark.parametrize("name", [name for name in RULES if name != "dis undetached"])
@some
@crowds
def test_a_token_that_did_not_move_weighs_its_advantage_whatever_the_widths(name: str, crowd):
    region = RULES[name].region(crowd[0].low, crowd[0].high)
    for t, (_, gradient) in zip(crowd, evaluate(region, *[t._replace(mu=t.pi) for t in crowd]), strict=True):
        assert near(gradient, t.advantage)


# GMPO and OPSM read a whole rollout: there a token that has no gradient itself still counts.
@pytest.mark.parametrize("name", [n for n, r in RULES.items() if r.steps and n not in ("gmpo", "opsm")])
@some
@crowds
def test_how_far_out_a_dropped_token_is_changes_nothing(name: str, crowd):
    """Loss and gradients bit for bit, its neighbours' too; so too where the divisor counts kept tokens."""
    rule, low, high = RULES[name], crowd[0].low, crowd[0].high
    estimator = dataclasses.replace(
        grpo_dis(), trust=rule.region(low, high), counted=inside(low, high) if name == "dis" else None
    )
    for t in [t for t in crowd if rule.weight(t) == 0 and decided(rule, t)][:3]:
        # Twice as far out, in the direction that it went.
        further = t._replace(mu=t.mu / 2 if t.pi > t.mu else (1 + t.mu) / 2)
        assert rule.weight(further) == 0
        assert torch.equal(beside_others(estimator, t), beside_others(estimator, further))


def beside_others(estimator: Estimator, t: Token) -> torch.Tensor:
    """Loss and gradient of a rollout with the token in its middle."""
    b = batch([[1, 1, 1]], behaviour_log_probs=rows([-1.1, math.log(t.mu), -0.9]))
    own = dataclasses.replace(estimator, advantage=lambda _: rows([1.0, t.advantage, -1.0]))
    loss, gradient = loss_and_gradient(own, rows([-1.0, math.log(t.pi), -1.0]), b)
    assert gradient[0, 1] == 0
    return torch.cat([loss[None], gradient[0]])


@some
@crowds
def test_a_wider_band_keeps_whatever_a_narrower_one_kept(crowd):
    low, high = crowd[0].low, crowd[0].high
    wider = evaluate(double_sided_mask(min(1.0, low * 1.5), high * 1.5), *crowd)
    for narrow, wide in zip(evaluate(double_sided_mask(low, high), *crowd), wider, strict=True):
        assert wide == narrow or narrow[1] == 0.0


@some
@crowds
def test_values_are_the_published_minimum_and_maximum(crowd):
    low, high = crowd[0].low, crowd[0].high
    cap = 1 + 2 * high
    clip, dual = evaluate(ppo_clip(low, high), *crowd), evaluate(dual_clip(low, high, cap=cap), *crowd)
    for t, (value, _), (floored, _) in zip(crowd, clip, dual, strict=True):
        r, a = t.ratio, t.advantage
        published = min(r * a, min(max(r, 1 - low), 1 + high) * a)
        assert near(value, published)
        assert near(floored, max(published, cap * a) if a < 0 else published)
    assert evaluate(delta_clip(low, high, delta=cap), *crowd) == dual
    assert evaluate(dual_clip(low, high, cap=math.inf), *crowd) == clip


@some
@crowds
def test_the_value_of_the_mask_is_weight_times_advantage_times_log_prob(crowd):
    low, high = crowd[0].low, crowd[0].high
    for region in (double_sided_mask(low, high), double_sided_mask_undetached(low, high)):
        for t, (value, _) in zip(crowd, evaluate(region, *crowd), strict=True):
            if decided(RULES["dis"], t):
                assert near(value, t.ratio * t.advantage * math.log(t.pi) if in_band(t) else 0.0)
