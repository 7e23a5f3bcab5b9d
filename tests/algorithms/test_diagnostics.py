import dataclasses
import math

import pytest
import torch

from algorithms.diagnostics import (
    chi_square,
    explained_variance,
    gradient_flow,
    k1,
    k3,
    log_ratio_quantiles,
    sequence_ess,
    token_ess,
)
from algorithms.trust import double_sided_mask, ppo_clip
from tests.algorithms.make import T64, rows

NAN = math.nan
FULL = torch.ones(1, 4, dtype=torch.bool)


def test_explained_variance_of_saos_numbers():
    values, returns = rows([1.2, 1.8, 4.0, 4.5]), rows([1.0, 2.0, 5.0, 4.0])
    assert explained_variance(values, returns, FULL) == pytest.approx(0.87325, abs=5e-6)


def test_explained_variance_is_undefined_for_constant_returns():
    assert math.isnan(explained_variance(rows([1.0, 2.0, 3.0, 4.0]), rows([0.1] * 4), FULL))
    assert math.isnan(explained_variance(rows([1.0] * 4), rows([1.0] * 4), torch.zeros_like(FULL)))


def test_explained_variance_reads_action_tokens_only():
    mask = torch.tensor([[True, True, False]])
    assert explained_variance(rows([1.0, 3.0, NAN]), rows([1.0, 3.0, NAN]), mask) == 1.0


def test_ess_by_hand():
    # Ratios 1, 1, 2: 16 / 6 = 2.667 effective of 3. As one rollout each, the same.
    log_ratio = rows([0.0], [0.0], [math.log(2.0)])
    mask = torch.ones(3, 1, dtype=torch.bool)
    assert token_ess(log_ratio, mask) == pytest.approx(16 / 18)
    assert sequence_ess(log_ratio, mask) == pytest.approx(16 / 18)


def test_log_ratio_quantiles_are_what_at_most_the_share_exceeds():
    # |log r| of 1 to 1000 in any order and sign: 500, 100, 10 and 1 of them exceed 500, 900, 990 and 999.
    sizes = torch.arange(1, 1001, dtype=T64)
    signs = torch.where(sizes % 2 == 0, 1.0, -1.0)
    mask = torch.cat([torch.ones(1000), torch.zeros(1)]).bool()[None]
    log_ratio = torch.cat([(sizes * signs).flip(0), torch.tensor([NAN], dtype=T64)])[None]
    assert log_ratio_quantiles(log_ratio, mask) == {"p50": 500, "p90": 900, "p99": 990, "p99_9": 999}
    # Of three, one may exceed the median; less than one may exceed the others.
    few = log_ratio_quantiles(rows([0.1, -3.0, 2.0]), torch.ones(1, 3, dtype=torch.bool))
    assert few == {"p50": 2.0, "p90": 3.0, "p99": 3.0, "p99_9": 3.0}
    none = log_ratio_quantiles(rows([1.0]), torch.zeros(1, 1, dtype=torch.bool))
    assert all(map(math.isnan, none.values()))


def test_sequence_ess_multiplies_a_rows_ratios_and_never_overflows():
    log_ratio = rows([400.0, 400.0], [0.0, NAN])
    mask = torch.tensor([[True, True], [True, False]])
    assert sequence_ess(log_ratio, mask) == pytest.approx(0.5)
    assert sequence_ess(torch.zeros(2, 2, dtype=T64), mask) == 1.0


def test_divergences_by_hand():
    # Ratios 2 and 1/2: k1 = 0; k3 = (2 - 1 - ln 2 + .5 - 1 + ln 2) / 2 = .25; chi2 = (4 + .25)/2 - 1.
    log_ratio, mask = rows([math.log(2.0), -math.log(2.0)]), torch.ones(1, 2, dtype=torch.bool)
    assert k1(log_ratio, mask) == pytest.approx(0.0)
    assert k3(log_ratio, mask) == pytest.approx(0.25)
    assert chi_square(log_ratio, mask) == pytest.approx(1.125)


def test_k1_and_k3_estimate_the_same_divergence_exactly_under_mu():
    mu, pi = torch.tensor([0.5, 0.3, 0.2], dtype=T64), torch.tensor([0.2, 0.3, 0.5], dtype=T64)
    exact = (mu * (mu / pi).log()).sum().item()
    by_token = [((pi / mu).log()[i].reshape(1, 1), mu[i].item()) for i in range(3)]
    one = torch.ones(1, 1, dtype=torch.bool)
    assert sum(p * k1(x, one) for x, p in by_token) == pytest.approx(exact)
    assert sum(p * k3(x, one) for x, p in by_token) == pytest.approx(exact)


def test_nothing_to_see_is_zero_not_nan():
    none = torch.zeros(2, 2, dtype=torch.bool)
    x = torch.full((2, 2), NAN, dtype=T64)
    assert [f(x, none) for f in (token_ess, sequence_ess, k1, k3, chi_square)] == [0.0] * 5
    assert set(dataclasses.astuple(gradient_flow(x, x, x, none))) == {0.0}


def flow(trust, log_ratio, advantages, mask):
    log_probs = torch.full(mask.shape, -1.0, dtype=T64, requires_grad=True)
    surrogate = trust(log_ratio - 1.0 - log_probs.detach() + (log_probs + 1.0), advantages, log_probs)
    (gradient,) = torch.autograd.grad(surrogate.sum(), log_probs)
    return gradient_flow(surrogate, gradient, advantages, mask)


def test_gradient_flow_by_the_sign_of_the_advantage():
    # Ratios 10, 10, .1, 1, 1 with advantages +1, -1, -1, +1, 0: five tokens, then padding.
    log_ratio = torch.tensor([[math.log(10.0), math.log(10.0), math.log(0.1), 0.0, 0.0, 0.0]], dtype=T64)
    advantages = torch.tensor([[1.0, -1.0, -1.0, 1.0, 0.0, NAN]], dtype=T64)
    mask = torch.tensor([[True] * 5 + [False]])
    masked = flow(double_sided_mask(0.3, 5.0), log_ratio, advantages, mask)
    assert (masked.positive, masked.negative, masked.zero) == (0.4, 0.4, 0.2)
    assert (masked.masked_positive, masked.masked_negative, masked.masked) == (0.2, 0.4, 0.6)
    assert masked.clipped == 0.0
    assert masked.flat == 0.8
    clipped = flow(ppo_clip(0.2, 0.28), log_ratio, advantages, mask)
    # The risen bad token is not clipped: PPO bounds one side of each sign.
    assert (clipped.clipped_positive, clipped.clipped_negative, clipped.clipped) == (0.2, 0.2, 0.4)
    assert clipped.masked == 0.0
    assert clipped.flat == pytest.approx(0.6)


def test_a32_an_update_that_drops_everything_says_so():
    x = torch.zeros(1, 2, dtype=T64)
    assert gradient_flow(x, x, torch.ones_like(x), torch.ones(1, 2, dtype=torch.bool)).masked == 1.0


def test_a02_an_update_without_signal_says_so():
    x = torch.zeros(1, 2, dtype=T64)
    assert gradient_flow(x, x, x, torch.ones(1, 2, dtype=torch.bool)).zero == 1.0
