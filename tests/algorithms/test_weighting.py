import math

import pytest
import torch
from torch import Tensor

from algorithms.aggregate import token_mean
from algorithms.cispo import batch_std, cispo, scalerl
from algorithms.ratio import per_token
from algorithms.topr import topr
from algorithms.truncated_is import aipo, pipelinerl, torchforge_reinforce
from algorithms.trust import TrustRegion, dual_clip, importance_weighted, score
from algorithms.vespo import vespo
from algorithms.weighting import clipped_weight, soft_weight, tapered_off_policy, truncated_weight
from tests.algorithms.make import bandit, batch, rows

T64 = torch.float64


def gradient(trust: TrustRegion, ratios: list[float], advantages: list[float], at: float = -1.0) -> Tensor:
    """d surrogate / d log pi, for a policy whose log-prob is `at` everywhere."""
    log_probs = torch.full((1, len(ratios)), at, dtype=T64, requires_grad=True)
    behaviour = log_probs.detach() - torch.tensor([ratios], dtype=T64).log()
    value = trust(log_probs - behaviour, torch.tensor([advantages], dtype=T64), log_probs)
    return torch.autograd.grad(value.sum(), log_probs)[0][0]


def close(got: Tensor, wanted: list[float], atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=1e-12)


def test_a19_the_weight_is_detached():
    close(gradient(clipped_weight(0.2, 0.28), [1.1, 1.5, 0.5], [1.0, 1.0, 1.0], at=-2.0), [1.1, 1.28, 0.8])


def test_a_weight_outside_the_band_keeps_its_gradient_where_ppo_has_none():
    close(gradient(clipped_weight(1.0, 4.0), [1e-3, 100.0], [1.0, -1.0]), [1e-3, -5.0])
    close(gradient(torchforge_reinforce().trust, [1e-3, 100.0, 3.0], [1.0, -1.0, 1.0]), [0.1, -10.0, 3.0])
    close(gradient(pipelinerl().trust, [0.5, 7.0], [1.0, 1.0]), [0.5, 5.0])
    close(gradient(aipo(cap=2.0).trust, [0.5, 7.0], [1.0, 1.0]), [0.5, 2.0])


RATIOS, ADVANTAGES = [0.01, 0.5, 1.0, 3.0, 100.0], [1.0, -2.0, 1.0, -1.0, 2.0]


def test_limits_are_importance_weighting_and_reinforce():
    weighted = gradient(importance_weighted, RATIOS, ADVANTAGES).tolist()
    close(gradient(truncated_weight(), RATIOS, ADVANTAGES), weighted)
    close(gradient(clipped_weight(1.0, math.inf), RATIOS, ADVANTAGES), weighted)
    close(gradient(truncated_weight(floor=1.0, cap=1.0), RATIOS, ADVANTAGES), ADVANTAGES)
    misses = [
        (gradient(truncated_weight(cap=c), RATIOS, ADVANTAGES) - torch.tensor(weighted, dtype=T64))
        .norm()
        .item()
        for c in (1.0, 2.0, 5.0, 50.0, 200.0)
    ]
    assert misses == sorted(misses, reverse=True)
    assert misses[-1] == 0


def test_a_bound_is_no_half_width_and_is_named_when_refused():
    with pytest.raises(ValueError, match=r"floor must lie in \[0, 1\], got 1.5"):
        truncated_weight(floor=1.5)
    with pytest.raises(ValueError, match=r"cap must be at least 1, got 0.2"):
        truncated_weight(cap=0.2)
    with pytest.raises(ValueError, match=r"eps_low must lie in \(0, 1\], got 1.5"):
        clipped_weight(1.5, 0.2)
    with pytest.raises(ValueError, match=r"k_bad must be positive and finite, got 0"):
        soft_weight(k_bad=0.0)


def fixture(trust: TrustRegion) -> float:
    """Three rollouts of one token; public numbers of the oracle note. Sum of losses."""
    advantages = rows([1.0], [-1.0], [-4.0])
    old, new = rows([-1.0], [-1.0], [-3.0]), rows([-1.69315], [-1.0], [-0.69741])
    return -trust(new - old, advantages, new).sum().item()


def test_public_fixture_of_cispo_and_dual_clip():
    # Ratios .5, 1 and 10, weights .8, 1 and 1.2.
    by_hand = 0.8 * 1.69315 - 1.0 - 1.2 * 4 * 0.69741
    assert fixture(clipped_weight(0.2, 0.2)) == pytest.approx(by_hand, abs=1e-12)
    assert fixture(clipped_weight(0.2, 0.2)) == pytest.approx(-2.9930, abs=1e-4)
    assert fixture(dual_clip(0.2, 0.2, cap=3.0)) == pytest.approx(12.5, abs=1e-4)


def test_topr_tapers_bad_tokens_only():
    close(gradient(tapered_off_policy, [0.25, 4.0, 0.25, 4.0], [1.0, 1.0, -1.0, -1.0]), [1, 1, -0.25, -1])
    close(
        gradient(tapered_off_policy, [0.25, 4.0], [2.0, 2.0]), gradient(score, [0.25, 4], [2.0, 2]).tolist()
    )


@pytest.mark.parametrize(("form", "weights"), [(None, (0.125, 0.125)), (per_token, (0.25, 0.5))])
def test_topr_by_trajectory_and_by_token(form, weights: tuple[float, float]):
    """Ratios 1/4 and 1/2: the paper weighs both tokens by 1/8, ROLL each by its own."""
    estimator = topr(aggregate=token_mean) if form is None else topr(log_ratio=form)
    new = rows([-1.0, -1.0]).requires_grad_()
    record = batch([[1, 1]], behaviour_log_probs=new.detach() - rows([0.25, 0.5]).log())
    estimator.surrogate(new, record, rows([-1.0, -1.0])).sum().backward()
    assert new.grad is not None
    close(new.grad[0], [-weights[0], -weights[1]])


def test_vespo_weight_is_one_on_policy_and_fades_on_both_sides():
    close(gradient(soft_weight(), [1.0, 1.0], [1.0, -1.0]), [1.0, -1.0])
    at_two = math.exp(3) * 2**2 * math.exp(-6)
    close(gradient(soft_weight(), [2.0], [1.0]), [at_two])
    close(gradient(soft_weight(), [2.0], [-1.0]), [-math.exp(2) * 2**3 * math.exp(-4)])
    far = gradient(vespo().trust, [1e-6, 1e6], [1.0, -1.0])
    assert far.abs().max() < 1e-9


def test_scalerl_scales_by_the_batch():
    record = bandit([1.0, 0.0, 5.0, 1.0], [0, 0, 1, 1])
    centred = torch.tensor([0.5, -0.5, 2.0, -2.0], dtype=T64)
    close(scalerl().advantage(record)[:, 0], (centred / (centred.std() + 1e-6)).tolist())
    assert batch_std(torch.ones(1, dtype=T64), torch.zeros(1, dtype=torch.long)).item() == 0


def test_cispo_reads_the_latest_policy_and_scalerl_the_engine():
    record = batch([[1]], behaviour_log_probs=rows([-3.0]), old_log_probs=rows([-1.0]))
    new = rows([-1.0])
    assert cispo().surrogate(new, record, rows([1.0])).item() == -1.0
    against_engine = scalerl().fixed(new, record, rows([1.0]))
    assert against_engine.surrogate(new, record, rows([1.0])).item() == pytest.approx(-5.0)
