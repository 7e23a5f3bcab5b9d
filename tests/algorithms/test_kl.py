import dataclasses
import math

import pytest
import torch

from algorithms.grpo import grpo
from algorithms.kl import Estimate, k1, k2, k3, kl_penalty, reverse_kl, with_kl_in_reward
from algorithms.ratio import per_token, per_token_proximal, per_token_reference
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import loss_and_gradient, poisoned, policy_near, random_batch

NAN = math.nan
TERMS = {
    "k1": kl_penalty(0.1, k1),
    "k2": kl_penalty(0.1, k2),
    "k3": kl_penalty(0.1, k3),
    "k3 weighted": kl_penalty(0.1, k3, importance=per_token),
    "reverse": reverse_kl(0.1),
    "reverse capped": reverse_kl(0.1, cap=2.0),
}


def test_three_estimates_by_hand():
    d = torch.tensor([math.log(2.0), -math.log(2.0), 0.0], dtype=T64)
    torch.testing.assert_close(k1(d), d)
    torch.testing.assert_close(k2(d), torch.tensor([0.240227, 0.240227, 0.0], dtype=T64), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        k3(d), torch.tensor([0.5 - 1 + 0.693147, 2 - 1 - 0.693147, 0.0], dtype=T64), atol=1e-6, rtol=0
    )


def test_k3_of_next_to_nothing_survives_single_precision():
    d = torch.tensor([1e-4, -1e-4])
    torch.testing.assert_close(k3(d), torch.full((2,), 5e-9), rtol=2e-2, atol=0)
    literal = (-d).exp() - 1 + d
    assert ((literal - 5e-9).abs() > 2e-9).all()


def test_k3_loses_its_gradient_where_the_ratio_saturates_and_never_its_sign():
    d = torch.tensor([-100.0, -19.0, 30.0, 100.0], requires_grad=True)
    k3(d).sum().backward()
    assert d.grad is not None
    torch.testing.assert_close(d.grad, torch.tensor([0.0, 1 - math.exp(19.0), 1.0, 1.0]))
    assert torch.isfinite(k3(d)).all()


def test_a21_products_are_summed_not_sums_multiplied():
    # KL(pi || mu) from mu's tokens: log-ratios [.1, -.2, .3]; the gradient of each token is r log r.
    b = batch([[1, 1, 1]], behaviour_log_probs=rows([-1.0, -1.0, -1.0]))
    new = rows([-0.9, -1.2, -0.7]).requires_grad_()
    (gradient,) = torch.autograd.grad(reverse_kl(1.0, against=per_token)(new, b).sum(), new)
    assert gradient.sum().item() == pytest.approx(0.351729, abs=5e-7)
    value = kl_penalty(1.0, k1, against=per_token, importance=per_token)(new, b)
    assert value.sum().item() == pytest.approx(0.351729, abs=5e-7)
    apart = per_token(new, b)
    assert (apart.exp().sum() * apart.sum()).item() == pytest.approx(0.654752, abs=5e-7)


def test_kl_in_reward_by_hand():
    b = batch(
        [[1, 0, 1]],
        rewards=rows([0.0, NAN, 1.0]),
        old_log_probs=rows([-1.0, NAN, -2.0]),
        reference_log_probs=rows([-1.5, NAN, -1.0]),
    )
    priced = with_kl_in_reward(b, 0.1)
    torch.testing.assert_close(priced.rewards, rows([-0.05, 0.0, 1.1]))
    assert priced.old_log_probs is b.old_log_probs
    assert torch.equal(with_kl_in_reward(b, 0.0).rewards, rows([0.0, 0.0, 1.0]))


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("extreme", [-100.0, 100.0])
def test_extreme_ratios_and_padding(name: str, extreme: float):
    """Finite at e^100, either way round; NaN off the action tokens changes nothing."""
    own = random_batch(0, dtype=torch.float32)
    reference = own.behaviour_log_probs - 0.3
    own = dataclasses.replace(own, reference_log_probs=reference.where(own.action_mask, NAN))
    estimator = dataclasses.replace(grpo(), regularisers=(TERMS[name],))
    for sampled, other in ((extreme, 0.0), (0.0, extreme), (extreme, -extreme)):
        moved = dataclasses.replace(
            own,
            behaviour_log_probs=own.behaviour_log_probs + sampled,
            reference_log_probs=own.reference_log_probs + other,
        )
        loss, gradient = loss_and_gradient(estimator, policy_near(own, 0.1), moved)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()
        assert (gradient[~own.action_mask] == 0).all()
        spoiled = policy_near(own, 0.1).where(own.action_mask, NAN)
        again, same = loss_and_gradient(estimator, spoiled, poisoned(moved))
        assert torch.equal(loss, again)
        assert torch.equal(gradient, same)


def test_a_pull_is_nothing_at_its_target_and_does_not_vanish_where_ratios_saturate():
    b = batch([[1, 1]], behaviour_log_probs=rows([-30.0, -1.0]), reference_log_probs=rows([-30.0, -1.0]))
    new = rows([-1.0, -1.0]).requires_grad_()
    (gradient,) = torch.autograd.grad(reverse_kl(1.0)(new, b).sum(), new)
    assert gradient[0, 0].item() == pytest.approx(29 * math.exp(20.0))
    assert gradient[0, 1].item() == 0.0


@pytest.mark.parametrize("estimate", [k1, k2, k3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_in_single_precision_out(estimate: Estimate, dtype: torch.dtype):
    b = batch([[1, 1]], dtype, reference_log_probs=rows([-1.0, -2.0], dtype=dtype))
    new = rows([-1.25, -1.5], dtype=dtype).requires_grad_()
    terms = kl_penalty(1.0, estimate)(new, b)
    assert terms.dtype == torch.float32
    torch.testing.assert_close(terms, estimate(torch.tensor([[-0.25, 0.5]])))
    assert torch.autograd.grad(terms.sum(), new)[0].dtype == dtype


def test_refusals():
    b = batch([[1]])
    with pytest.raises(ValueError, match="weight must be finite and not negative, got -1"):
        kl_penalty(-1.0, k3)
    with pytest.raises(ValueError, match=r"cap must be at least 1, got 0\.5"):
        reverse_kl(1.0, cap=0.5)
    with pytest.raises(ValueError, match="reference_log_probs, got None"):
        per_token_reference(rows([0.0]), b)
    with pytest.raises(ValueError, match="proximal_log_probs, got None"):
        per_token_proximal(rows([0.0]), b)
    with pytest.raises(ValueError, match="old_log_probs, got None"):
        with_kl_in_reward(b, 0.1)
