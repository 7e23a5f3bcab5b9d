"""Weights between the engine and the trainer, against hand arithmetic and published numbers."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.aggregate import constant, token_mean
from algorithms.correction import (
    Correction,
    both,
    sequence_ratio,
    sequence_truncated,
    token_ratio,
    token_truncated,
    unweighted,
)
from algorithms.estimator import Estimator
from algorithms.ratio import per_token_old
from algorithms.rejection import geometric_band, k3_below, kpop, sequence_band, token_band, veto
from algorithms.rollout import Batch
from algorithms.trust import importance_weighted, ppo_clip, score
from tests.algorithms.make import T64, batch, rows

NAN = math.nan

EVERY: dict[str, Correction] = {
    "unweighted": unweighted,
    "token_ratio": token_ratio,
    "sequence_ratio": sequence_ratio,
    "token_truncated": token_truncated(2.0),
    "sequence_truncated": sequence_truncated(2.0),
    "token_band": token_band(floor=0.5, ceiling=2.0),
    "sequence_band": sequence_band(floor=0.5, ceiling=2.0),
    "geometric_band": geometric_band(floor=0.9, ceiling=1.1),
    "k3_below": k3_below(0.01),
    "veto": veto(1e-4),
    "kpop": kpop(0.1),
    "both": both(veto(1e-4), token_truncated(2.0)),
}
every_correction = pytest.mark.parametrize("correct", EVERY.values(), ids=EVERY)


def mismatched(*log_rho: list[float], mask: list[list[int]] | None = None, dtype: torch.dtype = T64) -> Batch:
    """Engine at -1 everywhere, trainer's old weights `log_rho` above it; shorter rows are padded."""
    action = mask or [[1] * len(row) for row in log_rho]
    old = rows(*log_rho, dtype=dtype) - 1.0
    chosen = rows(*action, dtype=torch.long).bool()
    behaviour = torch.full_like(old, -1.0).where(chosen, NAN)
    return batch(chosen, dtype, behaviour_log_probs=behaviour, old_log_probs=old)


def close(got: Tensor, wanted: list[list[float]], atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=1e-12)


def test_truncation_by_token_and_by_rollout():
    b = mismatched([0.5, -0.5, 1.0])
    close(token_truncated(2.0)(b), [[1.6487, 0.6065, 2.0]], 5e-5)
    close(sequence_truncated(10.0)(b), [[2.7183] * 3], 5e-5)
    close(sequence_truncated(2.0)(b), [[2.0] * 3])
    masked = mismatched([0.5, -0.5, 1.0], mask=[[1, 0, 1]])
    close(sequence_truncated(10.0)(masked), [[4.4817, 0.0, 4.4817]], 5e-5)


def published(correction: Correction | None, log_ratio=per_token_old) -> float:
    """The loss of a public test-suite: three tokens, clip 0.2, ratios .5, 1 and 1.5."""
    everything = torch.ones(1, 3, dtype=torch.bool)
    b = batch(
        everything,
        behaviour_log_probs=rows([-0.5, -1.5, -0.8]),
        old_log_probs=rows([-1.0, -1.0, -1.0]),
    )
    estimator = Estimator(
        advantage=unweighted,
        log_ratio=log_ratio,
        trust=ppo_clip(0.2, 0.2),
        aggregate=token_mean,
        correction=correction,
    )
    new, advantages = rows([-1.69315, -1.0, -0.59453]), rows([1.0, -1.0, 2.0])
    return estimator.loss(new, b, advantages=advantages, total=estimator.total(b)).item()


def test_published_losses_under_a_cap_of_point_eight():
    def geometric_mean(log_probs: Tensor, b: Batch) -> Tensor:
        return per_token_old(log_probs, b).mean(-1, keepdim=True).expand_as(log_probs)

    assert published(None) == pytest.approx(-0.6333, abs=5e-5)
    assert published(token_truncated(0.8)) == pytest.approx(-0.4744, abs=5e-5)
    # The sequence number pairs the rollout's weight with the rollout's geometric-mean ratio.
    by_rollout = published(sequence_truncated(0.8), geometric_mean)
    assert by_rollout == pytest.approx(-0.4846, abs=5e-5)


def test_a_rejected_rollout_is_rejected_on_its_action_tokens_only():
    b = mismatched([0.0, -50.0, 0.0], mask=[[1, 0, 1]])
    for correct in EVERY.values():
        close(correct(b), [[1.0, 0.0, 1.0]])


@every_correction
def test_where_trainer_and_engine_agree_every_weight_is_one(correct: Correction):
    close(correct(mismatched([0.0, 0.0, 0.0], [0.0])), [[1.0] * 3, [1.0, 0.0, 0.0]])


@every_correction
def test_weights_are_detached_finite_and_zero_off_the_action_tokens(correct: Correction):
    for size in (100.0, -100.0):
        b = mismatched([size, 0.0, size], [0.1, size], mask=[[1, 0, 1], [1, 1]], dtype=torch.float32)
        old = b.old_log_probs
        assert old is not None
        spoiled = dataclasses.replace(b, old_log_probs=old.where(b.action_mask, NAN).requires_grad_())
        weight = correct(spoiled)
        assert not weight.requires_grad
        assert weight.dtype == torch.float32
        assert torch.isfinite(weight).all()
        assert (weight >= 0).all()
        assert (weight[~b.action_mask] == 0).all()


ratios = st.lists(st.floats(-3, 3), min_size=1, max_size=5)


@given(ratios, st.floats(1, 10), st.floats(1, 3))
def test_truncation_grows_with_its_cap_up_to_the_ratio(log_rho: list[float], cap: float, more: float):
    b = mismatched(log_rho)
    for make, pure in ((token_truncated, token_ratio), (sequence_truncated, sequence_ratio)):
        assert (make(cap)(b) <= make(cap * more)(b)).all()
        assert torch.equal(make(math.inf)(b), pure(b))
    close(token_ratio(b), [[math.exp(x) for x in log_rho]])
    close(sequence_ratio(b), [[math.exp(sum(log_rho))] * len(log_rho)], 1e-9)


def test_both_multiplies_and_drops_what_either_drops():
    b = mismatched([0.5, -0.5, 1.0], [0.0, -20.0, 0.0])
    close(both(veto(1e-4), token_truncated(2.0))(b), [[math.exp(0.5), math.exp(-0.5), 2.0], [0.0] * 3])
    assert torch.equal(both(token_ratio)(b), token_ratio(b))
    with pytest.raises(ValueError, match="at least one correction"):
        both()


def test_a26_filler_on_a_masked_token_stays_out_of_a_mean():
    # Masked token: 0 on the trainer's side and 1 on the engine's would be a ratio of exp(-1).
    b = batch([[1, 1, 0]], behaviour_log_probs=rows([-1.0, -1.0, 1.0]), old_log_probs=rows([-1.0, -1.0, 0.0]))
    weight = token_ratio(b)
    assert weight.sum().item() / int(b.action_mask.sum()) == 1.0
    assert weight[0, 2].item() == 0.0


def test_a21_weights_multiply_token_by_token():
    x = [0.1, -0.2, 0.3]
    b = mismatched(x)
    estimator = Estimator(
        advantage=unweighted,
        log_ratio=per_token_old,
        trust=importance_weighted,
        aggregate=constant(1),
        correction=token_ratio,
    )
    assert b.old_log_probs is not None
    loss = estimator.loss(b.old_log_probs, b, advantages=-rows(x), total=estimator.total(b))
    assert loss.item() == pytest.approx(0.351729, abs=5e-7)


def test_a_dropped_token_drops_an_infinite_log_prob_with_it():
    b = mismatched([0.0, -50.0])
    estimator = Estimator(
        advantage=unweighted,
        log_ratio=per_token_old,
        trust=score,
        aggregate=token_mean,
        correction=token_band(floor=0.5, ceiling=2.0),
    )
    log_probs = rows([-1.0, -math.inf]).requires_grad_()
    loss = estimator.loss(log_probs, b, advantages=unweighted(b), total=estimator.total(b))
    loss.backward()
    assert loss.item() == 0.5
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [[-0.5, 0.0]]


def test_a_correction_leaves_regularisers_alone():
    b = mismatched([5.0, 5.0])
    estimator = Estimator(
        advantage=unweighted,
        log_ratio=per_token_old,
        trust=score,
        aggregate=token_mean,
        regularisers=(lambda log_probs, _: torch.ones_like(log_probs),),
        correction=token_band(floor=0.5, ceiling=2.0),
    )
    log_probs = rows([-1.0, -1.0])
    assert estimator.loss(log_probs, b, advantages=unweighted(b), total=estimator.total(b)).item() == 1.0


@pytest.mark.parametrize("name", [name for name in EVERY if name != "unweighted"])
def test_without_the_trainers_old_log_probs_there_is_nothing_to_weigh(name: str):
    with pytest.raises(ValueError, match="old_log_probs"):
        EVERY[name](batch([[1, 1]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: token_truncated(0.0), "cap must be positive, got 0.0"),
        (lambda: sequence_truncated(NAN), "cap must be positive, got nan"),
    ],
)
def test_a_bad_choice_is_refused_with_its_name_and_value(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()
