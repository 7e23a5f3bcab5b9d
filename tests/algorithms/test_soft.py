import math

import pytest
import torch
from torch import Tensor

from algorithms.aggregate import constant
from algorithms.delta import delta_clip, grpo_delta
from algorithms.kimi import kimi
from algorithms.penalty import squared_log_ratio, squared_rollout_log_ratio
from algorithms.sapo import sapo, soft_gate
from algorithms.trust import TrustRegion, importance_weighted, ppo_clip
from tests.algorithms.make import batch, rows

T64 = torch.float64
RATIOS, ADVANTAGES = [0.01, 0.5, 0.9, 1.0, 1.1, 3.0, 1000.0] * 2, [1.0] * 7 + [-1.0] * 7


def value_and_gradient(
    trust: TrustRegion, ratios: list[float], advantages: list[float]
) -> tuple[Tensor, Tensor]:
    log_probs = torch.full((1, len(ratios)), -1.0, dtype=T64, requires_grad=True)
    behaviour = log_probs.detach() - torch.tensor([ratios], dtype=T64).log()
    value = trust(log_probs - behaviour, torch.tensor([advantages], dtype=T64), log_probs)
    return value.detach()[0], torch.autograd.grad(value.sum(), log_probs)[0][0]


def test_sapo_gate_by_hand():
    value, gradient = value_and_gradient(soft_gate(), [1.0, 1.0, 2.0], [1.0, -1.0, 1.0])
    gate = 1 / (1 + math.exp(-1))
    torch.testing.assert_close(value, torch.tensor([2.0, -2.0 / 1.05, 4 * gate], dtype=T64))
    torch.testing.assert_close(
        gradient, torch.tensor([1.0, -1.0, 4 * gate * (1 - gate) * 2], dtype=T64), rtol=1e-12, atol=0
    )


def test_sapo_fades_where_ppo_stops_or_never_does():
    _, gradient = value_and_gradient(sapo().trust, [100.0, 100.0], [1.0, -1.0])
    assert gradient.abs().max() < 1e-30


def test_sapo_at_no_steepness_is_importance_weighting():
    _, gradient = value_and_gradient(soft_gate(tau_good=1e-7, tau_bad=1e-7), [0.1, 3.0], [1.0, -1.0])
    _, wanted = value_and_gradient(importance_weighted, [0.1, 3.0], [1.0, -1.0])
    torch.testing.assert_close(gradient, wanted, rtol=1e-12, atol=0)


def test_delta_is_the_literal_minimum():
    def literal(log_ratio: Tensor, advantages: Tensor, log_probs: Tensor) -> Tensor:
        ratio = log_ratio.exp() + 0 * log_probs
        return torch.minimum(ratio.clamp(max=4.0) * advantages, ratio.clamp(0.8, 1.2) * advantages)

    got = value_and_gradient(delta_clip(0.2, 0.2, delta=4.0), RATIOS, ADVANTAGES)
    wanted = value_and_gradient(literal, RATIOS, ADVANTAGES)
    torch.testing.assert_close(got[0], wanted[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(got[1], wanted[1], rtol=1e-12, atol=0)


def test_infinite_delta_is_the_clip_alone():
    got = value_and_gradient(delta_clip(0.2, 0.28, delta=math.inf), RATIOS, ADVANTAGES)
    wanted = value_and_gradient(ppo_clip(0.2, 0.28), RATIOS, ADVANTAGES)
    assert torch.equal(got[1], wanted[1])


def test_kimi_by_hand():
    # A = 2, log r = .3, tau = .1: loss 2 * .7 + .05 * .09, gradient -2 + .1 * .3.
    record = batch([[1]], old_log_probs=rows([-1.0]))
    new = rows([-0.7]).requires_grad_()
    loss = kimi().loss(new, record, advantages=rows([2.0]), total=torch.tensor(1))
    loss.backward()
    assert loss.item() == pytest.approx(1.4 + 0.0045)
    assert new.grad is not None
    assert new.grad.item() == pytest.approx(-2 + 0.03)


def test_kimi_squares_a_token_or_a_rollout():
    record = batch([[1, 1]], behaviour_log_probs=rows([-1.0, -1.0]), old_log_probs=rows([-1.0, -1.0]))
    new, zero = rows([-0.9, -0.7]), rows([0.0, 0.0])
    token = kimi(tau=2.0, aggregate=constant(1))
    assert token.loss(new, record, advantages=zero, total=torch.tensor(1)).item() == pytest.approx(
        0.01 + 0.09
    )
    whole = kimi(tau=2.0, pull=squared_rollout_log_ratio, aggregate=constant(1))
    assert whole.loss(new, record, advantages=zero, total=torch.tensor(1)).item() == pytest.approx(0.4**2)


def test_refusals():
    with pytest.raises(ValueError, match="tau_bad must be positive and finite, got 0"):
        sapo(tau_bad=0.0)
    with pytest.raises(ValueError, match=r"delta must exceed 1 \+ high = 1.2, got 1.1"):
        grpo_delta(delta=1.1)
    with pytest.raises(ValueError, match=r"weight must be finite and not negative, got -0\.5"):
        kimi(tau=-1.0)
    with pytest.raises(ValueError, match="got inf"):
        squared_log_ratio(math.inf)
