import dataclasses
import math

import pytest
import torch

from algorithms.aggregate import constant, sequence_mean
from algorithms.estimator import Estimator
from algorithms.gmpo import geometric_mean_clip, gmpo
from algorithms.gspo import averaged, averaged_locally, gspo, gspo_token
from algorithms.opsm import off_policy_sequence_mask, opsm
from algorithms.ratio import per_sequence, per_sequence_product, per_token, per_token_old
from algorithms.trust import importance_weighted, ppo_clip
from tests.algorithms.make import batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch

T64 = torch.float64


def gradient(estimator: Estimator, log_ratio: list[float], advantage: float) -> torch.Tensor:
    """d loss / d log pi of one rollout; loss divided by one rollout, pi_old = mu."""
    new = torch.full((1, len(log_ratio)), -1.0, dtype=T64, requires_grad=True)
    reference = new.detach() - torch.tensor([log_ratio], dtype=T64)
    record = batch([[1] * len(log_ratio)], behaviour_log_probs=reference, old_log_probs=reference)
    estimator.loss(
        new, record, advantages=torch.full_like(reference, advantage), total=torch.tensor(1)
    ).backward()
    assert new.grad is not None
    return new.grad[0]


def test_a18_both_forms_share_a_gradient_and_a_sum_scales_it_by_the_length():
    for make in (gspo, gspo_token):
        free = dataclasses.replace(make(), trust=importance_weighted)
        wanted = torch.full((2,), -math.exp(0.2) / 2, dtype=T64)
        torch.testing.assert_close(gradient(free, [0.1, 0.3], 1.0), wanted, rtol=1e-12, atol=0)
        summed = dataclasses.replace(free, aggregate=constant(1))
        torch.testing.assert_close(gradient(summed, [0.1, 0.3], 1.0), 2 * wanted, rtol=1e-12, atol=0)


def test_a17_sum_and_mean_are_different_ratios():
    for length in (4, 200):
        new = torch.full((1, length), -1.0, dtype=T64)
        record = batch([[1] * length], behaviour_log_probs=new - 0.01)
        assert averaged(per_token)(new, record).exp()[0, 0].item() == pytest.approx(1.01005, abs=1e-5)
        product = per_sequence_product(new, record).exp()[0, 0].item()
        assert product == pytest.approx({4: 1.0408, 200: 7.3891}[length], abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_forms_agree_in_value_and_in_gradient_while_the_advantage_is_constant(seed: int):
    record = random_batch(seed)
    policy = policy_near(record, 0.3, seed)
    for of in (per_token, per_token_old):
        torch.testing.assert_close(averaged(of)(policy, record), averaged_locally(of)(policy, record))
        loss, whole = loss_and_gradient(gspo(log_ratio=of, eps_low=0.2, eps_high=0.2), policy, record)
        again, local = loss_and_gradient(gspo_token(log_ratio=of, eps_low=0.2, eps_high=0.2), policy, record)
        torch.testing.assert_close(loss, again, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(whole, local, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(averaged(per_token)(policy, record), per_sequence(policy, record))


def test_the_clip_drops_a_whole_rollout():
    assert (gradient(gspo(), [0.1, 0.3], 1.0) == 0).all()
    assert (gradient(gspo(), [0.1, 0.3], -1.0) != 0).all()


def test_gmpo_by_hand():
    # A = 1: q = min([.6, -1], .4) = [.4, -1], mean -.3; only the unclipped token has a gradient.
    got = gradient(gmpo(), [0.6, -1.0], 1.0)
    torch.testing.assert_close(got, torch.tensor([0.0, -math.exp(-0.3) / 2], dtype=T64))
    # A = -2: q = max([.6, -1], -.4) = [.6, -.4], mean .1.
    got = gradient(gmpo(), [0.6, -1.0], -2.0)
    torch.testing.assert_close(got, torch.tensor([2 * math.exp(0.1) / 2, 0.0], dtype=T64))


def test_gmpo_without_bounds_is_gspo_without_a_clip():
    record = random_batch(1)
    policy = policy_near(record, 0.5)
    _, got = loss_and_gradient(gmpo(eps_low=math.inf, eps_high=math.inf), policy, record)
    _, wanted = loss_and_gradient(dataclasses.replace(gspo(), trust=importance_weighted), policy, record)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)


def test_opsm_drops_bad_rollouts_that_the_policy_left():
    wide = opsm(eps_low=0.9, eps_high=9.0, delta=0.1)
    assert (gradient(wide, [-0.5, 0.1], -1.0) == 0).all()  # mean drop .2
    assert (gradient(wide, [-0.5, 0.1], 1.0) != 0).all()
    assert (gradient(wide, [-0.25, 0.1], -1.0) != 0).all()  # mean drop .075
    assert (gradient(wide, [0.5, 0.1], -1.0) != 0).all()


def test_opsm_with_infinite_delta_is_the_inner_trust_region():
    record = random_batch(2)
    policy = policy_near(record, 0.5)
    bounded = opsm(delta=math.inf)
    _, got = loss_and_gradient(bounded, policy, record)
    _, wanted = loss_and_gradient(dataclasses.replace(bounded, trust=ppo_clip(0.2, 0.28)), policy, record)
    assert torch.equal(got, wanted)
    assert bounded.aggregate is sequence_mean


def test_refusals():
    with pytest.raises(ValueError, match="high must be positive, got 0"):
        geometric_mean_clip(0.4, 0.0)
    with pytest.raises(ValueError, match="delta must not be negative, got -1"):
        off_policy_sequence_mask(importance_weighted, delta=-1.0)
    with pytest.raises(ValueError, match="low must lie in"):
        gspo(eps_low=0.0)


def test_rows_of_a_group_without_signal_are_silent():
    record = batch([[1, 1], [1, 1]], rewards=rows([0.0, 1.0], [0.0, 1.0]), group_ids=torch.tensor([3, 3]))
    record = dataclasses.replace(record, old_log_probs=record.behaviour_log_probs)
    for make in (gspo, gspo_token, gmpo, opsm):
        _, got = loss_and_gradient(make(), rows([-1.0, -2.0], [0.0, -0.5]), record)
        assert (got == 0).all()
