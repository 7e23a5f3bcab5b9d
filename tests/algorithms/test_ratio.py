import math

import pytest
import torch

from algorithms.likelihood import token_log_probs
from algorithms.ratio import bounded_exp, per_sequence, per_sequence_product, per_token, per_token_old
from algorithms.trust import importance_weighted
from tests.algorithms.make import T64, batch, rows

NAN = float("nan")


def test_a17_product_grows_with_length_and_geometric_mean_does_not():
    b = batch([[1] * 4, [1] * 200])
    log_probs = torch.full((2, 200), 0.01, dtype=T64)
    product, mean = per_sequence_product(log_probs, b), per_sequence(log_probs, b)
    torch.testing.assert_close(
        product[:, 0].exp(), torch.tensor([1.0408, 7.3891], dtype=T64), atol=5e-5, rtol=0
    )
    torch.testing.assert_close(mean[:, 0].exp(), torch.tensor([1.01005] * 2, dtype=T64), atol=5e-6, rtol=0)
    assert (product[0, 4:] == 0).all()


def test_observations_take_no_part_in_a_sequence_ratio():
    b = batch([[1, 0, 1]])
    log_probs = torch.tensor([[0.1, NAN, 0.3]], dtype=T64)
    torch.testing.assert_close(per_sequence(log_probs, b), torch.tensor([[0.2, 0.0, 0.2]], dtype=T64))
    torch.testing.assert_close(per_sequence_product(log_probs, b), torch.tensor([[0.4, 0.0, 0.4]], dtype=T64))


def test_a18_geometric_ratio_averaged_over_the_rollout():
    # log-ratio [.1, .3], A = 1: each token's gradient is -s/2, s = exp(.2) = 1.2214
    b = batch([[1, 1]])
    log_probs = torch.tensor([[0.1, 0.3]], dtype=T64, requires_grad=True)
    loss = -importance_weighted(per_sequence(log_probs, b), torch.ones(1, 2, dtype=T64), log_probs).mean()
    (gradient,) = torch.autograd.grad(loss, log_probs)
    torch.testing.assert_close(gradient, torch.full((1, 2), -0.6107, dtype=T64), atol=5e-5, rtol=0)


def test_a26_masked_tokens_have_ratio_one_whatever_fills_them():
    b = batch([[1, 1, 0]], behaviour_log_probs=torch.tensor([[-0.5, -0.5, 1.0]], dtype=T64))
    log_ratio = per_token(torch.tensor([[-0.5, -0.5, 0.0]], dtype=T64), b)
    assert log_ratio.tolist() == [[0.0, 0.0, 0.0]]
    assert log_ratio[b.action_mask].exp().mean() == 1.0


def test_a22_temperature_belongs_inside_the_softmax():
    # logits [2, 1, 0] at temperature .6, one token of each
    logits = torch.tensor([2.0, 1.0, 0.0], dtype=T64).expand(1, 3, 3)
    right = torch.tensor([[-0.20257, -1.86924, -3.53591]], dtype=T64)
    fields = {"token_ids": torch.tensor([[0, 1, 2]]), "behaviour_log_probs": right}
    tempered = batch([[1, 1, 1]], temperature=torch.tensor([0.6], dtype=T64), **fields)
    torch.testing.assert_close(token_log_probs(logits, tempered), right, atol=5e-6, rtol=0)
    on_policy = per_token(token_log_probs(logits, tempered), tempered).exp()
    torch.testing.assert_close(on_policy, torch.ones(1, 3, dtype=T64), atol=1e-5, rtol=0)
    # The mix of temperatures that the case reports, .8146 = 1/1.2276 and so on.
    mixed = per_token(token_log_probs(logits, batch([[1, 1, 1]], **fields)), tempered).exp()
    torch.testing.assert_close(
        1 / mixed, torch.tensor([[1.2276, 0.6303, 0.3236]], dtype=T64), atol=5e-5, rtol=0
    )


def test_a24_shifted_or_longer_inputs_are_refused():
    b = batch([[1, 1, 1]])
    with pytest.raises(ValueError, match=r"\(1, 5\)"):
        token_log_probs(torch.zeros(1, 5, 4, dtype=T64), b)
    for ratio in (per_token, per_sequence, per_sequence_product):
        with pytest.raises(ValueError, match=r"log_probs has shape \(1, 2\)"):
            ratio(torch.zeros(1, 2, dtype=T64), b)


def test_a24_and_a53_the_same_weights_give_ratio_one():
    logits = torch.randn(4, 6, 9, generator=torch.Generator().manual_seed(0))
    b = batch(torch.ones(4, 6, dtype=torch.bool), torch.float32, token_ids=torch.arange(24).reshape(4, 6) % 9)
    scored = logits.log_softmax(-1).gather(-1, b.token_ids[..., None]).squeeze(-1)
    b = batch(b.action_mask, torch.float32, token_ids=b.token_ids, behaviour_log_probs=scored)
    assert per_token(token_log_probs(logits, b), b).abs().max() < 1e-5


def test_nan_logits_off_the_mask_leave_no_trace():
    logits = torch.zeros(1, 3, 4, dtype=T64)
    logits[0, 1] = NAN
    logits.requires_grad_()
    token_log_probs(logits, batch([[1, 0, 1]])).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[0, 1] == 0).all()


def test_per_token_old_measures_from_the_trainers_own_weights():
    b = batch(
        [[1, 1]],
        behaviour_log_probs=rows([-9.0, -9.0]),
        old_log_probs=torch.tensor([[-1.0, -2.0]], dtype=T64),
    )
    log_ratio = per_token_old(torch.tensor([[-0.5, -2.0]], dtype=T64), b)
    torch.testing.assert_close(log_ratio, torch.tensor([[0.5, 0.0]], dtype=T64))
    with pytest.raises(ValueError, match="old_log_probs"):
        per_token_old(torch.zeros(1, 2, dtype=T64), batch([[1, 1]]))


def test_bounded_exp_saturates_and_then_has_no_gradient():
    x = torch.tensor([-math.inf, -100.0, 0.5, 20.0, 100.0, math.inf], requires_grad=True)
    y = bounded_exp(x)
    torch.testing.assert_close(
        y,
        torch.tensor([math.exp(-20), math.exp(-20), math.exp(0.5), math.exp(20), math.exp(20), math.exp(20)]),
    )
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([0.0, 0.0, math.exp(0.5), math.exp(20), 0.0, 0.0]))
