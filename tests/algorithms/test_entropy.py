import dataclasses
import math

import pytest
import torch
from torch import Tensor

from algorithms.entropy import entropy_bonus, token_entropy
from algorithms.grpo import grpo
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import loss_and_gradient, poisoned, policy_near, random_batch

NAN = math.nan


def drawn(*shape: int, dtype: torch.dtype = T64) -> Tensor:
    return (3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=T64)).to(dtype)


def literal(logits: Tensor, temperature: Tensor) -> Tensor:
    p = (logits / temperature[:, None, None]).softmax(-1)
    return -(p * p.log()).sum(-1)


def test_by_hand():
    # Uniform over four: ln 4. Certain: 0. (1/2, 1/4, 1/4): 1.5 ln 2.
    logits = torch.tensor([[[0.0] * 4, [0.0, -math.inf, -math.inf, -math.inf]]], dtype=T64)
    torch.testing.assert_close(token_entropy(logits, batch([[1, 1]])), rows([math.log(4), 0.0]))
    halves = torch.tensor([[[0.5, 0.25, 0.25, 0.0]]], dtype=T64).log()
    assert token_entropy(halves, batch([[1]])).item() == pytest.approx(1.5 * math.log(2))
    # Temperature inside the softmax: logits doubled at temperature two are the same distribution.
    hot = batch([[1]], temperature=torch.tensor([2.0], dtype=T64))
    assert token_entropy(2 * halves, hot).item() == pytest.approx(1.5 * math.log(2))


@pytest.mark.parametrize("chunk_tokens", [1, 4, 7, 1000])
def test_chunks_change_neither_value_nor_gradient(chunk_tokens: int):
    logits, temperature = drawn(3, 5, 11).requires_grad_(), torch.tensor([0.6, 1.0, 1.3], dtype=T64)
    mask = [[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [1, 1, 0, 0, 1]]
    record = batch(mask, temperature=temperature)
    weight = drawn(3, 5)
    entropy = token_entropy(logits, record, chunk_tokens=chunk_tokens)
    wanted = literal(logits, temperature).where(record.action_mask, 0.0)
    torch.testing.assert_close(entropy, wanted, rtol=1e-12, atol=1e-14)
    (gradient,) = torch.autograd.grad((weight * entropy).sum(), logits)
    (exact,) = torch.autograd.grad((weight * wanted).sum(), logits)
    torch.testing.assert_close(gradient, exact, rtol=1e-12, atol=1e-14)


def test_excluded_tokens_and_padding_leave_no_trace():
    logits = drawn(1, 3, 5)
    logits[0, 0, 2:] = -math.inf
    logits[0, 1] = NAN
    logits.requires_grad_()
    entropy = token_entropy(logits, batch([[1, 0, 1]]))
    assert entropy[0, 1] == 0.0
    torch.testing.assert_close(entropy[0, 0], literal(logits[:, :1, :2], torch.ones(1, dtype=T64))[0, 0])
    (gradient,) = torch.autograd.grad(entropy.sum(), logits)
    assert torch.isfinite(gradient).all()
    assert (gradient[0, 1] == 0).all()
    assert (gradient[0, 0, 2:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_the_float32_entropy_of_the_same_numbers(dtype: torch.dtype):
    logits = drawn(2, 6, 1000, dtype=dtype).requires_grad_()
    record = batch(torch.ones(2, 6, dtype=torch.bool), dtype)
    entropy = token_entropy(logits, record, chunk_tokens=5)
    assert entropy.dtype == torch.float32
    exact = literal(logits.detach().double(), torch.ones(2, dtype=T64))
    torch.testing.assert_close(entropy.double(), exact, rtol=2e-6, atol=0)
    # Summed in the format of the logits it would be off by more than a hundredth, or not a number.
    p = logits.detach().softmax(-1)
    by_format = -(p * p.log()).cumsum(-1)[..., -1]
    assert not (by_format.double() - exact).abs().max() <= 1e-2
    assert torch.autograd.grad(entropy.sum(), logits)[0].dtype == dtype


def test_bonus_by_hand():
    # pi/mu = 2: value and gradient are w * 2 log pi, to be minimised, so a rare token is raised.
    record = batch([[1, 0]], behaviour_log_probs=rows([-1.5 - math.log(2), NAN]))
    new = rows([-1.5, NAN]).requires_grad_()
    terms = entropy_bonus(0.1)(new, record)
    torch.testing.assert_close(terms, rows([-0.3, 0.0]))
    (gradient,) = torch.autograd.grad(terms.sum(), new)
    torch.testing.assert_close(gradient, rows([-0.3, 0.0]))
    capped = entropy_bonus(0.1, cap=1.5)(new, record)
    torch.testing.assert_close(capped, rows([-0.225, 0.0]))


@pytest.mark.parametrize("extreme", [-100.0, 100.0])
def test_extreme_ratios_and_padding(extreme: float):
    own = random_batch(1, dtype=torch.float32)
    estimator = dataclasses.replace(grpo(), regularisers=(entropy_bonus(0.01),))
    moved = dataclasses.replace(own, behaviour_log_probs=own.behaviour_log_probs + extreme)
    new = policy_near(own, 0.1)
    loss, gradient = loss_and_gradient(estimator, new, moved)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    again, same = loss_and_gradient(estimator, new.where(own.action_mask, NAN), poisoned(moved))
    assert torch.equal(loss, again)
    assert torch.equal(gradient, same)


def test_refusals():
    with pytest.raises(ValueError, match=r"logits cover \(1, 5\), action_mask \(1, 3\)"):
        token_entropy(drawn(1, 5, 4), batch([[1, 1, 1]]))
    with pytest.raises(ValueError, match="chunk_tokens must be positive, got 0"):
        token_entropy(drawn(1, 3, 4), batch([[1, 1, 1]]), chunk_tokens=0)
    with pytest.raises(ValueError, match="weight must be finite"):
        entropy_bonus(math.inf)
