import math

import pytest
import torch
from torch import Tensor

from algorithms.trust import (
    TrustRegion,
    band,
    double_sided_mask,
    double_sided_mask_undetached,
    dual_clip,
    importance_weighted,
    inside,
    ppo_clip,
    score,
)

T64 = torch.float64


def loss_and_gradient(
    trust: TrustRegion, ratios: list[float], advantages: list[float]
) -> tuple[Tensor, Tensor]:
    """Losses by token, and d loss / d log pi, for a policy whose log-prob is -1 everywhere."""
    log_probs = torch.full((1, len(ratios)), -1.0, dtype=T64, requires_grad=True)
    behaviour = log_probs.detach() - torch.tensor([ratios], dtype=T64).log()
    losses = -trust(log_probs - behaviour, torch.tensor([advantages], dtype=T64), log_probs)
    (gradient,) = torch.autograd.grad(losses.sum(), log_probs)
    return losses.detach()[0], gradient[0]


def close(got: Tensor, wanted: list[float], atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=1e-12)


A09_RATIOS, A09_ADVANTAGES = [1000.0, 1.5, 1.5, 0.01, 0.5, 1.1], [-1.0, -1.0, 1.0, 1.0, -1.0, 1.0]


def test_a09_ppo_clip_bounds_one_side_of_each_sign():
    losses, gradient = loss_and_gradient(ppo_clip(0.2, 0.28), A09_RATIOS, A09_ADVANTAGES)
    close(losses, [1000.0, 1.5, -1.28, -0.01, 0.8, -1.1])
    close(gradient, [1000.0, 1.5, 0.0, -0.01, 0.0, -1.1])


def test_a09_dual_clip_bounds_a_bad_token_that_rose():
    losses, gradient = loss_and_gradient(dual_clip(0.2, 0.28, cap=3.0), A09_RATIOS, A09_ADVANTAGES)
    close(losses, [3.0, 1.5, -1.28, -0.01, 0.8, -1.1])
    close(gradient, [0.0, 1.5, 0.0, -0.01, 0.0, -1.1])


def test_a09_double_sided_mask_ignores_the_sign():
    _, gradient = loss_and_gradient(double_sided_mask(0.2, 0.28), A09_RATIOS, A09_ADVANTAGES)
    close(gradient, [0.0, 0.0, 0.0, 0.0, 0.0, -1.1])


def test_a10_which_epsilon_bounds_which_side():
    _, gradient = loss_and_gradient(ppo_clip(0.2, 0.28), [1.25, 0.75], [1.0, -1.0])
    close(gradient, [-1.25, 0.0])
    _, swapped = loss_and_gradient(ppo_clip(0.28, 0.2), [1.25, 0.75], [1.0, -1.0])
    close(swapped, [0.0, 0.75])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a12_the_band_is_open_in_ratio_and_in_log_space(dtype: torch.dtype):
    ratios = torch.tensor([[0.70, 0.71, 1.0, 5.9, 6.0, 6.1]], dtype=dtype)
    kept = inside(0.3, 5.0)
    wanted = [[False, True, True, True, False, False]]
    assert kept(ratios.log()).tolist() == wanted
    by_math_log = torch.tensor([[math.log(x) for x in (0.70, 0.71, 1.0, 5.9, 6.0, 6.1)]], dtype=dtype)
    assert kept(by_math_log).tolist() == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [(0.2, 0.28), (0.3, 5.0), (0.8, 3.0), (0.1, 0.1), (3e-4, 4e-4)])
def test_a12_an_edge_is_outside_however_its_log_rounds(eps: tuple[float, float], dtype: torch.dtype):
    edges = torch.tensor([[1 - eps[0], 1 + eps[1]]], dtype=dtype)
    kept = inside(*eps)
    assert not kept(edges.log()).any()
    assert not kept(torch.log1p(torch.tensor([[-eps[0], eps[1]]], dtype=dtype))).any()
    within = torch.tensor([[1 - 0.99 * eps[0], 1 + 0.99 * eps[1]]], dtype=dtype)
    assert kept(within.log()).all()


def test_a12_in_band_the_gradient_is_ratio_times_advantage():
    _, gradient = loss_and_gradient(double_sided_mask(0.3, 5.0), [0.70, 0.71, 1.0, 5.9, 6.0, 6.1], [1.0] * 6)
    close(gradient, [0.0, -0.71, -1.0, -5.9, 0.0, 0.0])


@pytest.mark.parametrize(("eps", "extreme"), [((0.5, 4.0), 1000.0), ((0.3, 5.0), 100.0)])
def test_a13_a_dropped_token_is_zero_not_inf_times_zero(eps: tuple[float, float], extreme: float):
    # Mean over two tokens; kept token: ratio 1, A = 1, log pi = -1 -> its gradient is -1/2.
    log_ratio = torch.tensor([[extreme, 0.0]])
    log_probs = torch.full((1, 2), -1.0, requires_grad=True)
    loss = -double_sided_mask(*eps)(log_ratio, torch.ones(1, 2), log_probs).mean()
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert loss.item() == 0.5  # -f A log pi = 1, over two tokens
    assert gradient.tolist() == [[0.0, -0.5]]


def test_a_dropped_token_may_be_impossible():
    # log pi = -inf: a masked vocabulary entry. Zero weight times -inf would be NaN.
    log_probs = torch.tensor([[-math.inf, -1.0]], requires_grad=True)
    value = double_sided_mask(0.3, 5.0)(log_probs + 1.0, torch.ones(1, 2), log_probs)
    value.sum().backward()
    assert value.tolist() == [[0.0, -1.0]]
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [[0.0, 1.0]]


def test_a54_epsilons_are_not_bounds():
    assert band(0.8, 3.0) == pytest.approx((0.2, 4.0))
    assert band(0.3, 5.0) == (0.7, 6.0)
    _, gradient = loss_and_gradient(double_sided_mask(0.8, 3.0), [0.5, 3.5], [1.0, 1.0])
    close(gradient, [-0.5, -3.5])


@pytest.mark.parametrize(
    "bad", [(0.0, 5.0), (1.2, 5.0), (-0.3, 5.0), (0.3, 0.0), (0.3, math.nan), (math.nan, 1.0)]
)
def test_epsilons_outside_their_range_are_refused(bad: tuple[float, float]):
    for region in (double_sided_mask, double_sided_mask_undetached, inside, ppo_clip):
        with pytest.raises(ValueError, match=r"low must lie|high must be positive"):
            region(*bad)


@pytest.mark.parametrize("cap", [1.0, 0.5, math.nan])
def test_a_dual_clip_cap_must_exceed_one(cap: float):
    with pytest.raises(ValueError, match="cap must exceed 1"):
        dual_clip(0.2, 0.2, cap=cap)


SAO_RATIOS = [0.5, 0.7, 1.0, 3.0, 6.0, 0.69, 6.01]


def test_sao_numbers_f_of_the_ratio():
    # A = 1, log pi = -1: the loss of a token is f itself.
    losses, _ = loss_and_gradient(double_sided_mask(0.3, 5.0), SAO_RATIOS, [1.0] * 7)
    close(losses, [0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0])


SAO_ROLLOUT = [0.0, -1.0, 0.5, -2.0, 0.1]
SAO_POLICY = [0.0, 0.4, -0.7, 1.5, 0.2]
SAO_ADVANTAGES = [1.0, -2.0, 0.5, 3.0, -1.0]


@pytest.mark.parametrize(
    ("eps", "wanted"),
    [
        ((0.3, 5.0), [0.0, 3.24416, 0.0, 0.0, 0.22103]),
        ((0.8, 3.0), [0.0, 0.0, 0.10542, 0.0, 0.22103]),
    ],
)
def test_sao_numbers_loss_terms(eps: tuple[float, float], wanted: list[float]):
    policy = torch.tensor([SAO_POLICY], dtype=T64)
    log_ratio = policy - torch.tensor([SAO_ROLLOUT], dtype=T64)
    terms = -double_sided_mask(*eps)(log_ratio, torch.tensor([SAO_ADVANTAGES], dtype=T64), policy)
    torch.testing.assert_close(terms, torch.tensor([wanted], dtype=T64), atol=5e-6, rtol=0)


def test_the_undetached_mask_flips_sign_below_one_over_e():
    # Gradient of the surrogate is r A (1 + log pi): zero at 1/e, negative below.
    log_probs = torch.tensor([[-0.5, -1.0, -2.0]], dtype=T64, requires_grad=True)
    log_ratio = log_probs - log_probs.detach() + math.log(1.1)
    value = double_sided_mask_undetached(0.3, 5.0)(log_ratio, torch.ones(1, 3, dtype=T64), log_probs)
    (gradient,) = torch.autograd.grad(value.sum(), log_probs)
    close(gradient[0], [0.55, 0.0, -1.1])


def test_score_and_importance_weighted_by_hand():
    losses, gradient = loss_and_gradient(score, [3.0, 0.1], [2.0, -1.0])
    close(losses, [2.0, -1.0])
    close(gradient, [-2.0, 1.0])
    losses, gradient = loss_and_gradient(importance_weighted, [3.0, 0.1], [2.0, -1.0])
    close(losses, [-6.0, 0.1])
    close(gradient, [-6.0, 0.1])


def test_dual_clip_fixture_of_a_public_suite():
    # A [1,-1,-4], old [-1,-1,-3], new [-1.69315,-1,-.69741], eps .2, cap 3: losses sum to 12.5.
    new = torch.tensor([[-1.69315, -1.0, -0.69741]], dtype=T64)
    log_ratio = new - torch.tensor([[-1.0, -1.0, -3.0]], dtype=T64)
    terms = -dual_clip(0.2, 0.2, cap=3.0)(log_ratio, torch.tensor([[1.0, -1.0, -4.0]], dtype=T64), new)
    assert terms.sum().item() == pytest.approx(12.5, abs=1e-4)


def test_ppo_clip_fixture_of_a_public_suite():
    # A [1,-1,2], old -1, new [-1.69315,-1,-.59453], eps .2: mean loss -.6333.
    new = torch.tensor([[-1.69315, -1.0, -0.59453]], dtype=T64)
    terms = -ppo_clip(0.2, 0.2)(new + 1.0, torch.tensor([[1.0, -1.0, 2.0]], dtype=T64), new)
    assert terms.mean().item() == pytest.approx(-0.6333, abs=5e-5)
