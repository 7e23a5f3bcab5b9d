"""What a correction does to a rollout, against its rule in plain floats: which tokens it weighs by how much.

The advantage plays no part in any of them; divisors under every split are a law of `test_estimators`.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.aggregate import constant
from algorithms.correction import (
    Correction,
    sequence_ratio,
    sequence_truncated,
    token_ratio,
    token_truncated,
    unweighted,
)
from algorithms.estimator import Estimator
from algorithms.ratio import per_token_old
from algorithms.rejection import geometric_band, k3_below, kpop, sequence_band, token_band, veto
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip
from tests.algorithms.make import T64, batch, rows
from tests.laws.rejection_rules import RULES, Rollout, Rule, crowd, decided

every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
some = settings(max_examples=8)


rollouts = st.builds(crowd, st.integers(0, 10**6))
crowds = given(crowd=rollouts, floor=st.floats(0.05, 0.95), ceiling=st.floats(1.05, 5))


def as_batch(crowd: list[Rollout]) -> Batch:
    return batch(
        [[1] * len(x) for x in crowd],
        behaviour_log_probs=rows(*[[math.log(mu) for _, mu in x] for x in crowd]),
        old_log_probs=rows(*[[math.log(old) for old, _ in x] for x in crowd]),
    )


def loss_and_gradient(
    correction: Correction, b: Batch, log_probs: Tensor, advantages: Tensor
) -> tuple[Tensor, Tensor]:
    """PPO's clip against pi_old, summed over tokens and divided by the rollouts."""
    estimator = Estimator(
        advantage=lambda _: advantages,
        log_ratio=per_token_old,
        trust=ppo_clip(0.2, 0.28),
        aggregate=constant(1),
        correction=correction,
    )
    leaf = log_probs.clone().requires_grad_()
    loss = estimator.loss(leaf, b, advantages=advantages, total=estimator.total(b))
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


@every_rule
@some
@crowds
def test_a_tokens_gradient_is_ppos_times_the_rules_weight_and_zero_exactly_where_that_is(
    rule: Rule, crowd, floor: float, ceiling: float
):
    clear = [x for x in crowd if decided(rule, x, floor, ceiling)]
    b = as_batch(clear)
    assert b.old_log_probs is not None
    # Policies that have moved a little since: only the correction's own rule may drop.
    now = b.old_log_probs + 0.1
    advantages = torch.where(torch.arange(len(clear))[:, None] % 2 == 0, 1.0, -2.0).to(T64)
    advantages = advantages.expand_as(now)
    _, plain = loss_and_gradient(unweighted, b, now, advantages)
    _, gradient = loss_and_gradient(rule.correction(floor, ceiling), b, now, advantages)
    for x, got, without in zip(clear, gradient.tolist(), plain.tolist(), strict=True):
        weights = rule.weights(x, floor, ceiling)
        assert [g == 0 for g in got[: len(x)]] == [w == 0 for w in weights]
        for g, w, p in zip(got, weights, without, strict=False):
            assert math.isclose(g, w * p, rel_tol=1e-6)


def test_every_rule_is_seen_to_keep_and_to_drop():
    tried = [x for seed in range(5) for x in crowd(seed)]
    for name, rule in RULES.items():
        weights = [w for x in tried for w in rule.weights(x, 0.6, 2.0)]
        dropped = sum(w == 0 for w in weights) / len(weights)
        assert (0.03 < dropped < 0.9) if rule.drops else dropped == 0, name


@every_rule
@some
@crowds
def test_the_weight_never_sees_the_policy_under_training_nor_an_advantage(
    rule: Rule, crowd, floor: float, ceiling: float
):
    """So where the inner region is antisymmetric the whole is: no token is dropped for its sign."""
    b, correction = as_batch(crowd), rule.correction(floor, ceiling)
    weight = correction(b)
    assert not weight.requires_grad
    assert b.old_log_probs is not None
    ones = torch.ones_like(weight)
    up, down = (loss_and_gradient(correction, b, b.old_log_probs, a)[1] for a in (ones, -ones))
    assert torch.equal(up, -down)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.drops])
@some
@crowds
def test_how_far_out_a_dropped_token_is_changes_nothing(name: str, crowd, floor: float, ceiling: float):
    """Loss and every gradient bit for bit, if the engine's log-prob moves on in the direction it went."""
    rule = RULES[name]
    correction = rule.correction(floor, ceiling)
    moved = [further(rule, x, floor, ceiling) for x in crowd]
    dropped = sum(0.0 in rule.weights(x, floor, ceiling) for x in crowd)
    assert sum(x != y for x, y in zip(crowd, moved, strict=True)) >= dropped // 2
    before, after = as_batch(crowd), as_batch(moved)
    assert before.old_log_probs is not None
    now, advantages = before.old_log_probs + 0.1, torch.ones_like(before.old_log_probs)
    for one, other in zip(
        loss_and_gradient(correction, before, now, advantages),
        loss_and_gradient(correction, after, now, advantages),
        strict=True,
    ):
        assert torch.equal(one, other)


def further(rule: Rule, x: Rollout, floor: float, ceiling: float) -> Rollout:
    """The rollout with every ratio of its dropped tokens moved away from one, while the rule says dropped."""
    if not decided(rule, x, floor, ceiling):
        return x
    weights = rule.weights(x, floor, ceiling)
    out = [
        (old, mu / 2 if old > mu else (1 + mu) / 2) if w == 0 else (old, mu)
        for (old, mu), w in zip(x, weights, strict=True)
    ]
    # Of a whole rollout some ratios pull one way and some the other: they may cancel now.
    same = [w == 0 for w in rule.weights(out, floor, ceiling)] == [w == 0 for w in weights]
    return out if same and decided(rule, out, floor, ceiling) else x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("floor", "ceiling"), [(0.5, 5.0), (0.5, 2.0), (0.999, 1.001), (0.8, 1.2)])
def test_both_ends_of_a_band_are_inside_however_their_log_was_taken(
    dtype: torch.dtype, floor: float, ceiling: float
):
    by_torch = torch.tensor([[floor], [ceiling]], dtype=dtype).log()
    by_math = torch.tensor([[math.log(floor)], [math.log(ceiling)]], dtype=dtype)
    for nats in (by_torch, by_math):
        b = batch([[1], [1]], dtype, behaviour_log_probs=torch.zeros(2, 1, dtype=dtype), old_log_probs=nats)
        for band in (token_band, sequence_band, geometric_band):
            assert band(floor=floor, ceiling=ceiling, weight=unweighted)(b).tolist() == [[1.0], [1.0]]
        beyond = dataclasses.replace(b, old_log_probs=nats * 1.001)
        for band in (token_band, sequence_band, geometric_band):
            assert not band(floor=floor, ceiling=ceiling)(beyond).any()


@some
@given(crowd=rollouts)
def test_limits_are_no_correction_at_all_or_only_perfect_agreement(crowd):
    b, wide = as_batch(crowd), {"floor": 0.0, "ceiling": math.inf}
    assert torch.equal(token_band(**wide)(b), token_ratio(b))
    assert torch.equal(sequence_band(**wide)(b), sequence_ratio(b))
    for free in (geometric_band(**wide), k3_below(math.inf), kpop(math.inf), veto(1e-300)):
        assert torch.equal(free(b), unweighted(b))
    assert torch.equal(token_truncated(math.inf)(b), token_ratio(b))
    assert torch.equal(sequence_truncated(math.inf)(b), sequence_ratio(b))
    # With no room only tokens (rollouts) without any mismatch are left, at a weight of one.
    agreed = dataclasses.replace(b, old_log_probs=b.behaviour_log_probs)
    none = {"floor": 1.0, "ceiling": 1.0}
    assert b.old_log_probs is not None
    off = (b.old_log_probs - b.behaviour_log_probs).abs().where(b.action_mask, 0.0)
    for strict in (token_band(**none), sequence_band(**none), k3_below(1e-300), kpop(1e-300)):
        assert torch.equal(strict(agreed), unweighted(b))
    assert not (token_band(**none)(b) * (off > 1e-9)).any()
