import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.correction import Correction, both, sequence_ratio, token_ratio, token_truncated
from algorithms.diagnostics import gradient_flow, k1
from algorithms.grpo import grpo
from algorithms.mismatch import drift_by_cause, log_parts, on_mismatch
from algorithms.ratio import LogRatio, per_token, per_token_old, per_token_proximal
from algorithms.rejection import token_band
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip
from tests.algorithms.make import batch, rows

NAN = math.nan


def scored(
    update: float, staleness: float, mismatch: float, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Batch]:
    """pi and a batch whose three causes moved each token by about so many nats."""
    g = torch.Generator().manual_seed(0)
    mask = torch.rand(6, 9, generator=g) < 0.8

    def moved(log_probs: Tensor, nats: float) -> Tensor:
        return log_probs + nats * torch.randn(6, 9, generator=g, dtype=torch.float64).to(dtype)

    mu = -3 * torch.rand(6, 9, generator=g, dtype=torch.float64).to(dtype) - 0.1
    proximal = moved(mu, mismatch)
    old = moved(proximal, staleness)
    record = batch(
        mask,
        dtype,
        behaviour_log_probs=mu.where(mask, NAN),
        proximal_log_probs=proximal.where(mask, NAN),
        old_log_probs=old.where(mask, NAN),
    )
    return moved(old, update).where(mask, NAN), record


@given(nats=st.tuples(*[st.sampled_from([0.0, 1e-4, 0.03, 1.0, 30.0])] * 3))
def test_the_log_parts_add_up_to_the_last_bit(nats: tuple[float, float, float]):
    pi, record = scored(*nats)
    parts = log_parts(pi, record)
    whole = per_token(pi.double(), record)
    assert torch.equal(parts.update + parts.staleness + parts.mismatch, whole)
    assert (whole[~record.action_mask] == 0).all()
    drift = drift_by_cause(pi, record)
    by_cause = drift.update.k1 + drift.staleness.k1 + drift.mismatch.k1
    assert by_cause == pytest.approx(drift.total.k1, rel=1e-12, abs=1e-14)
    assert drift.total.k1 == pytest.approx(k1(whole, record.action_mask), rel=1e-12, abs=1e-14)


def test_by_hand():
    record = batch(
        [[1, 0, 1]],
        behaviour_log_probs=rows([-1.0, NAN, -2.0]),
        proximal_log_probs=rows([-1.5, NAN, -1.75]),
        old_log_probs=rows([-1.25, NAN, -1.75]),
    )
    drift = drift_by_cause(rows([-1.25, NAN, -1.0]), record)
    assert (drift.update.k1, drift.staleness.k1, drift.mismatch.k1) == (-0.375, -0.125, 0.125)
    assert drift.total.k1 == -0.375
    assert (drift.mismatch.absolute, drift.mismatch.largest) == (0.375, 0.5)
    literal = (math.exp(-0.5) - 1 + 0.5 + math.exp(0.25) - 1 - 0.25) / 2
    assert drift.mismatch_k3 == pytest.approx(literal)


def test_a53_at_learning_rate_zero_what_remains_is_mismatch():
    """The same weights scored on two numeric paths: a clip against mu acts, one against pi_prox does not."""
    pi, record = scored(0.0, 0.0, 0.1)
    drift = drift_by_cause(pi, record)
    zero = {"k1": 0.0, "absolute": 0.0, "largest": 0.0}
    assert dataclasses.asdict(drift.update) == dataclasses.asdict(drift.staleness) == zero
    assert drift.mismatch == drift.total
    assert drift.mismatch.absolute > 0.05
    assert clipped(per_token, pi, record) > 0.01
    assert clipped(per_token_proximal, pi, record) == 0.0
    assert clipped(per_token_old, pi, record) == 0.0


def test_a53_one_numeric_path_has_no_mismatch_either():
    pi, record = scored(0.0, 0.0, 0.0)
    assert drift_by_cause(pi, record).total.largest == 0.0
    assert clipped(per_token, pi, record) == 0.0


def clipped(log_ratio: LogRatio, log_probs: Tensor, record: Batch) -> float:
    leaf = log_probs.clone().requires_grad_()
    advantages = torch.ones_like(leaf)
    estimator = dataclasses.replace(grpo(), log_ratio=log_ratio, trust=ppo_clip(0.2, 0.2))
    surrogate = estimator.surrogate(leaf, record, advantages)
    (gradient,) = torch.autograd.grad(surrogate.sum(), leaf)
    return gradient_flow(surrogate, gradient, advantages, record.action_mask).clipped


@pytest.mark.parametrize(
    "correction",
    [
        token_ratio,
        sequence_ratio,
        token_truncated(1.05),
        both(token_ratio, token_band(floor=0.8, ceiling=1.2)),
    ],
    ids=["token", "sequence", "truncated", "both"],
)
def test_staleness_plays_no_part_in_a_correction_on_mismatch(correction: Correction):
    _, fresh = scored(0.0, 0.0, 0.2)
    stale = dataclasses.replace(fresh, old_log_probs=fresh.old_log_probs - 3.0)
    # Where trainer and pi_prox agree, pi_old / mu is the mismatch.
    assert torch.equal(on_mismatch(correction)(stale), correction(fresh))
    assert not torch.equal(correction(stale), correction(fresh))


def test_mismatch_weight_times_stale_ratio_is_the_whole_ratio():
    pi, record = scored(0.1, 0.5, 0.2, torch.float64)
    mask = record.action_mask
    product = on_mismatch(token_ratio)(record) * per_token_proximal(pi, record).exp()
    torch.testing.assert_close(product[mask], per_token(pi, record).exp()[mask], rtol=1e-12, atol=0)


def test_nothing_to_see_is_zero():
    record = batch([[0, 0]], old_log_probs=rows([NAN, NAN]), proximal_log_probs=rows([NAN, NAN]))
    drift = drift_by_cause(rows([NAN, NAN]), record)
    assert drift.total.k1 == drift.total.largest == drift.mismatch_k3 == 0.0


def test_refusals():
    pi, record = scored(0.1, 0.1, 0.1)
    without = dataclasses.replace(record, proximal_log_probs=None)
    with pytest.raises(ValueError, match="proximal_log_probs, got None"):
        on_mismatch(token_ratio)(without)
    with pytest.raises(ValueError, match="proximal_log_probs, got None"):
        drift_by_cause(pi, without)
    with pytest.raises(ValueError, match="old_log_probs, got None"):
        log_parts(pi, dataclasses.replace(record, old_log_probs=None))
