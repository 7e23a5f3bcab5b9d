import math

import pytest
import torch
from torch import Tensor

from algorithms.dppo import dppo_kl, dppo_tv, kl_mask, tv_mask
from algorithms.trust import TrustRegion
from algorithms.weighting import truncated_weight
from tests.algorithms.make import batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch

T64 = torch.float64


def gradient(trust: TrustRegion, pi: list[float], mu: list[float], advantages: list[float]) -> Tensor:
    """d surrogate / d log pi for tokens of given probabilities."""
    log_pi = torch.tensor([pi], dtype=T64).log().requires_grad_()
    log_ratio = log_pi - torch.tensor([mu], dtype=T64).log()
    value = trust(log_ratio, torch.tensor([advantages], dtype=T64), log_pi)
    return torch.autograd.grad(value.sum(), log_pi)[0][0]


def close(got: Tensor, wanted: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=1e-12, rtol=1e-12)


def test_a_rare_token_may_move_far_and_a_likely_one_may_not():
    # Ratio 5 from .01 is a move of .04; ratio 2 from .4 is a move of .4.
    close(gradient(tv_mask(0.2), [0.05, 0.8], [0.01, 0.4], [1.0, 1.0]), [5.0, 0.0])


def test_the_sign_of_the_advantage_decides_which_direction_is_bounded():
    pi, mu = [0.9, 0.9, 0.1, 0.1], [0.5, 0.5, 0.5, 0.5]
    for trust in (tv_mask(0.2), kl_mask(0.05)):
        close(gradient(trust, pi, mu, [1.0, -1.0, 1.0, -1.0]), [0.0, -1.8, 0.2, 0.0])


def test_binary_divergence_by_hand():
    at = 0.5 * math.log(0.5 / 0.6) + 0.5 * math.log(0.5 / 0.4)
    close(gradient(kl_mask(at * 1.001), [0.6], [0.5], [1.0]), [1.2])
    close(gradient(kl_mask(at * 0.999), [0.6], [0.5], [1.0]), [0.0])


def test_certain_tokens_are_no_accident():
    for trust in (tv_mask(0.2), kl_mask(0.05)):
        close(gradient(trust, [1.0, 1.0], [1.0, 0.5], [1.0, 1.0]), [1.0, 0.0])


def test_the_weight_is_truncated():
    close(gradient(tv_mask(0.2), [0.1], [0.001], [1.0]), [20.0])
    close(gradient(tv_mask(0.2, cap=math.inf), [0.1], [0.001], [1.0]), [100.0])


def test_wide_limits_keep_every_token():
    record = random_batch(0)
    policy = policy_near(record, 0.5).clamp(max=-1e-3)
    free = dppo_tv(delta=1.0)
    _, wanted = loss_and_gradient(
        type(free)(
            advantage=free.advantage,
            log_ratio=free.log_ratio,
            trust=truncated_weight(cap=20.0),
            aggregate=free.aggregate,
        ),
        policy,
        record,
    )
    for wide in (free, dppo_kl(delta=math.inf)):
        _, got = loss_and_gradient(wide, policy, record)
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)


def test_the_pull_acts_on_dropped_tokens_too():
    """prime-rl: -keep A u + 1e-3 (log u)^2."""
    new = rows([math.log(0.9)]).requires_grad_()
    record = batch([[1]], behaviour_log_probs=rows([math.log(0.4)]))
    loss = dppo_tv(pull=1e-3).loss(new, record, advantages=rows([1.0]), total=torch.tensor(1))
    loss.backward()
    log_u = math.log(0.9 / 0.4)
    assert loss.item() == pytest.approx(1e-3 * log_u**2)
    assert new.grad is not None
    assert new.grad.item() == pytest.approx(2e-3 * log_u)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: dppo_tv(delta=1.5), r"delta must lie in \(0, 1\], got 1.5"),
        (lambda: dppo_kl(delta=0.0), r"delta must be positive, got 0"),
        (lambda: dppo_tv(cap=0.5), r"cap must be at least 1, got 0.5"),
        (lambda: dppo_tv(pull=-1.0), r"weight must be finite and not negative, got -1"),
    ],
)
def test_refusals(make, match: str):
    with pytest.raises(ValueError, match=match):
        make()
