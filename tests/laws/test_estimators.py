"""Laws that every estimator obeys."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.estimator import Estimator
from tests.laws.compositions import (
    COMPOSITIONS,
    loss_and_gradient,
    padded,
    poisoned,
    policy_near,
    random_batch,
)

every_estimator = pytest.mark.parametrize(
    "estimator", [c.estimator for c in COMPOSITIONS.values()], ids=list(COMPOSITIONS)
)


@every_estimator
@pytest.mark.parametrize("seed", range(3))
def test_nan_off_the_action_tokens_changes_nothing(estimator: Estimator, seed: int):
    batch = random_batch(seed)
    log_probs = policy_near(batch, 0.5)
    loss, gradient = loss_and_gradient(estimator, log_probs, batch)
    spoiled = log_probs.where(batch.action_mask, math.nan)
    again, same_gradient = loss_and_gradient(estimator, spoiled, poisoned(batch))
    assert torch.equal(loss, again)
    assert torch.equal(gradient, same_gradient)
    assert torch.isfinite(gradient).all()


@every_estimator
def test_masked_tokens_have_exactly_zero_gradient(estimator: Estimator):
    batch = random_batch(1)
    _, gradient = loss_and_gradient(estimator, policy_near(batch, 0.5), batch)
    assert (gradient[~batch.action_mask] == 0).all()
    assert (gradient[batch.action_mask] != 0).any()


@every_estimator
def test_more_padding_changes_nothing(estimator: Estimator):
    batch = random_batch(2)
    log_probs = policy_near(batch, 0.5)
    loss, gradient = loss_and_gradient(estimator, log_probs, batch)
    wider = torch.nn.functional.pad(log_probs, (0, 5), value=math.nan)
    again, wide_gradient = loss_and_gradient(estimator, wider, padded(batch, 5))
    torch.testing.assert_close(again, loss, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(wide_gradient[:, :-5], gradient, rtol=1e-12, atol=1e-14)
    assert (wide_gradient[:, -5:] == 0).all()


@every_estimator
@settings(max_examples=15)
@given(seed=st.integers(0, 1000), cuts=st.sets(st.integers(1, 6)))
def test_shards_add_up_for_any_split(estimator: Estimator, seed: int, cuts: set[int]):
    batch = random_batch(seed)
    log_probs = policy_near(batch, 0.5, seed)
    whole, gradient = loss_and_gradient(estimator, log_probs, batch)
    advantages = estimator.advantage(batch)
    edges = [0, *sorted(cuts), len(log_probs)]
    pieces = [slice(a, b) for a, b in itertools.pairwise(edges)]
    # Ranks add their counts up; so may micro-batches.
    total = sum((estimator.total(batch.rows(s), log_probs[s]) for s in pieces), start=torch.tensor(0))
    leaf = log_probs.clone().requires_grad_()
    parts = [estimator.loss(leaf[s], batch.rows(s), advantages=advantages[s], total=total) for s in pieces]
    for part in parts:
        part.backward()
    assert leaf.grad is not None
    torch.testing.assert_close(sum(p.detach() for p in parts), whole, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(leaf.grad, gradient, rtol=1e-10, atol=1e-12)


@every_estimator
@settings(max_examples=10)
@given(order=st.permutations(range(7)))
def test_row_order_is_irrelevant(estimator: Estimator, order: list[int]):
    batch = random_batch(3)
    log_probs = policy_near(batch, 0.5)
    index = torch.tensor(order)
    loss, gradient = loss_and_gradient(estimator, log_probs, batch)
    shuffled, shuffled_gradient = loss_and_gradient(estimator, log_probs[index], batch.rows(index))
    torch.testing.assert_close(shuffled, loss, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(shuffled_gradient, gradient[index], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, c in COMPOSITIONS.items() if c.reinforce is not None])
def test_on_policy_gradient_is_reinforce(name: str):
    """At mu = pi_old = pi every trust region leaves A grad log pi, under its own weights of tokens."""
    estimator, reinforce = COMPOSITIONS[name].estimator, COMPOSITIONS[name].reinforce
    batch = random_batch(4)
    batch = dataclasses.replace(batch, old_log_probs=batch.behaviour_log_probs)
    _, gradient = loss_and_gradient(estimator, batch.behaviour_log_probs, batch)
    leaf = batch.behaviour_log_probs.clone().requires_grad_()
    mask = batch.action_mask
    assert reinforce is not None
    (-reinforce.reduce(leaf * estimator.advantage(batch), mask, reinforce.count(mask))).backward()
    torch.testing.assert_close(gradient, leaf.grad, rtol=1e-12, atol=1e-14)


@every_estimator
@pytest.mark.parametrize("extreme", [-100.0, 100.0])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_extreme_ratios_stay_finite_in_single_precision(estimator: Estimator, extreme: float, share: float):
    batch = random_batch(5, dtype=torch.float32)
    moved = torch.rand(batch.action_mask.shape, generator=torch.Generator().manual_seed(0)) < share
    log_probs = batch.behaviour_log_probs + extreme * moved
    loss, gradient = loss_and_gradient(estimator, log_probs, batch)
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


@every_estimator
def test_no_action_tokens_at_all_is_zero_with_zero_gradient(estimator: Estimator):
    whole = random_batch(6)
    empty = poisoned(dataclasses.replace(whole, action_mask=torch.zeros_like(whole.action_mask)))
    loss, gradient = loss_and_gradient(estimator, torch.full_like(whole.rewards, math.nan), empty)
    assert loss.item() == 0.0
    assert (gradient == 0).all()


@every_estimator
def test_a_micro_batch_that_drops_every_token_is_zero_beside_the_others(estimator: Estimator):
    """A row whose tokens are all out of band, or all masked, adds nothing that is not a number."""
    batch = random_batch(7)
    log_probs = policy_near(batch, 0.1)
    log_probs[0] = batch.behaviour_log_probs[0] - 50.0
    loss, gradient = loss_and_gradient(estimator, log_probs, batch)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


@every_estimator
def test_the_same_call_gives_the_same_bits(estimator: Estimator):
    batch = random_batch(8)
    log_probs = policy_near(batch, 0.5)
    first, second = (loss_and_gradient(estimator, log_probs, batch) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_surrogate_is_zero_off_the_action_tokens_whatever_the_trust_region_does():
    def careless(log_ratio, advantages, log_probs):
        return (log_ratio + log_probs).exp() * advantages + 1.0

    batch = poisoned(random_batch(9))
    log_probs = torch.full_like(batch.behaviour_log_probs, -1.0).where(batch.action_mask, math.nan)
    log_probs.requires_grad_()
    advantages = torch.ones_like(batch.behaviour_log_probs).where(batch.action_mask, math.nan)
    custom = dataclasses.replace(COMPOSITIONS["grpo dis"].estimator, trust=careless)
    surrogate = custom.surrogate(log_probs, batch, advantages)
    assert (surrogate[~batch.action_mask] == 0).all()
    # Beyond the loss: anomaly detection would stop at a NaN in any intermediate gradient.
    with torch.autograd.detect_anomaly(check_nan=True):
        surrogate.sum().backward()
    assert log_probs.grad is not None
    assert (log_probs.grad[~batch.action_mask] == 0).all()
