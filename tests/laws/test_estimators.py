"""Every composition obeys every law of `algorithms.conformance`, on random batches larger than its own.

The conformance suite looks for the smallest batch that breaks a law; here the batches are fixed and rich.
What only this suite states: that the weights on-policy are the aggregate's, that nothing depends on the
call before, and that careless trust regions are masked for them.
"""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.aggregate import Aggregate
from algorithms.conformance.disturb import on_policy, poisoned
from algorithms.conformance.laws import (
    LAWS,
    Law,
    all_masked_is_zero,
    extreme_ratios_stay_finite,
    loss_and_gradient,
    on_policy_is_reinforce,
    row_order_is_irrelevant,
)
from tests.laws.compositions import COMPOSITIONS, Composition, policy_near, random_batch

every_composition = pytest.mark.parametrize("tried", list(COMPOSITIONS.values()), ids=list(COMPOSITIONS))
REINFORCE = [name for name, c in COMPOSITIONS.items() if c.reinforce is not None]


def distances(law: Law) -> tuple[float, ...]:
    """Nats that the policy moved: inside and outside most bands, or as far as no ratio can follow."""
    return (-100.0, 100.0) if law is extreme_ratios_stay_finite else (0.1, 1.0)


@pytest.mark.parametrize(
    ("name", "law"),
    [(name, law) for name in COMPOSITIONS for law in LAWS if law is not on_policy_is_reinforce]
    + [(name, on_policy_is_reinforce) for name in REINFORCE],
    ids=lambda of: of if isinstance(of, str) else of.__name__,
)
def test_every_composition_obeys_every_law(name: str, law: Law):
    for seed, distance in enumerate(distances(law)):
        batch = COMPOSITIONS[name].draw(seed)
        law(COMPOSITIONS[name].estimator, batch, policy_near(batch, distance, seed))


@pytest.mark.parametrize("name", [name for name in COMPOSITIONS if name not in REINFORCE])
def test_an_exception_to_reinforce_is_a_real_one(name: str):
    """Another direction than A grad log pi, or weights of tokens that are not the aggregate's."""
    tried = COMPOSITIONS[name]
    batch = tried.draw(0)

    def reinforce() -> None:
        on_policy_is_reinforce(tried.estimator, batch, batch.behaviour_log_probs)
        weights_are_those_of(tried.estimator.aggregate, tried)

    with pytest.raises(AssertionError):
        reinforce()


@every_composition
@settings(max_examples=3)
@given(order=st.permutations(range(7)))
def test_row_order_is_irrelevant_for_any_order(tried: Composition, order: list[int]):
    """The law tries two orders of the rows that it is given; here it is given them in any."""
    batch, index = tried.draw(3), torch.tensor(order)
    row_order_is_irrelevant(tried.estimator, batch.rows(index), policy_near(batch, 0.5)[index])


@pytest.mark.parametrize("name", REINFORCE)
def test_on_policy_the_weights_of_tokens_are_the_aggregates(name: str):
    """The law only wants some positive weight; at mu = pi_old = pi it is what the aggregate says."""
    reinforce = COMPOSITIONS[name].reinforce
    assert reinforce is not None
    weights_are_those_of(reinforce, COMPOSITIONS[name])


def weights_are_those_of(aggregate: Aggregate, tried: Composition) -> None:
    # Regularisers have a gradient of their own.
    estimator = dataclasses.replace(tried.estimator, regularisers=())
    batch = tried.draw(4)
    batch = on_policy(batch, batch.behaviour_log_probs)
    _, gradient = loss_and_gradient(estimator, batch.behaviour_log_probs, batch)
    leaf, mask = batch.behaviour_log_probs.clone().requires_grad_(), batch.action_mask
    wanted = aggregate.reduce(leaf * estimator.advantage(batch), mask, aggregate.count(mask))
    (expected,) = torch.autograd.grad(-wanted, leaf)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)


@every_composition
def test_there_is_something_to_obey(tried: Composition):
    """A gradient of zeros would pass every law but one."""
    batch = tried.draw(1)
    _, gradient = loss_and_gradient(tried.estimator, policy_near(batch, 0.5), batch)
    assert (gradient[batch.action_mask] != 0).any()


@every_composition
def test_a_batch_without_action_tokens_may_hold_nan_everywhere(tried: Composition):
    whole = tried.draw(6)
    empty = poisoned(dataclasses.replace(whole, action_mask=torch.zeros_like(whole.action_mask)))
    all_masked_is_zero(tried.estimator, empty, torch.full_like(whole.rewards, math.nan))


@every_composition
def test_a_rollout_that_drops_every_token_is_zero_or_finite_beside_the_others(tried: Composition):
    """Fifty nats out of every band, in one rollout; the others keep their gradient."""
    batch = tried.draw(7)
    log_probs = policy_near(batch, 0.1)
    log_probs[0] = batch.behaviour_log_probs[0] - 50.0
    loss, gradient = loss_and_gradient(tried.estimator, log_probs, batch)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    assert (gradient[1:] != 0).any()


@every_composition
def test_the_same_call_gives_the_same_bits_and_leaves_its_inputs_alone(tried: Composition):
    batch = tried.draw(8)
    log_probs = policy_near(batch, 0.5)
    kept = {f.name: _copy(getattr(batch, f.name)) for f in dataclasses.fields(batch)}
    first, second = (loss_and_gradient(tried.estimator, log_probs, batch) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert torch.equal(log_probs, policy_near(batch, 0.5))
    for name, before in kept.items():
        after = getattr(batch, name)
        assert (after is None and before is None) or torch.equal(after, before), name


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()


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
