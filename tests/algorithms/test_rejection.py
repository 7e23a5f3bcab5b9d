"""Which tokens and rollouts are left out, against hand arithmetic and published numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.aggregate import sequence_mean, token_mean
from algorithms.correction import Correction, sequence_ratio, token_ratio, unweighted
from algorithms.estimator import Estimator
from algorithms.mis import veto_rs
from algorithms.ratio import per_token_old
from algorithms.rejection import geometric_band, k3_below, kpop, sequence_band, token_band, veto
from algorithms.rollout import Batch
from algorithms.trust import importance_weighted
from tests.algorithms.make import T64, batch
from tests.algorithms.test_correction import close, mismatched, ratios


def test_a_band_weighs_by_the_ratio_inside_and_drops_outside():
    b = mismatched([math.log(0.4), math.log(0.5), 0.0, math.log(5.0), math.log(5.1)])
    close(token_band(floor=0.5, ceiling=5.0)(b), [[0.0, 0.5, 1.0, 5.0, 0.0]])
    close(token_band(floor=0.5, ceiling=5.0, weight=unweighted)(b), [[0.0, 1.0, 1.0, 1.0, 0.0]])


def test_a_rollouts_band_looks_at_the_product_or_at_the_mean():
    b = mismatched([0.4, 0.4], [0.1, -0.1], [-0.3, -0.3, -0.3])
    close(sequence_band(floor=0.5, ceiling=2.0)(b), [[0.0] * 3, [1.0, 1.0, 0.0], [0.0] * 3])
    close(sequence_band(floor=0.0, ceiling=2.0)(b)[2:], [[math.exp(-0.9)] * 3])
    close(geometric_band(floor=0.9, ceiling=1.1)(b), [[0.0] * 3, [1.0, 1.0, 0.0], [0.0] * 3])
    raw = geometric_band(floor=0.9, ceiling=1.1, weight=token_ratio)(b)
    close(raw[1:2], [[math.exp(0.1), math.exp(-0.1), 0.0]])


def test_k3_sees_what_a_geometric_mean_lets_cancel():
    b = mismatched([0.5, -0.5], [0.1, -0.1])
    assert geometric_band(floor=0.999, ceiling=1.001)(b).all()
    # Mean k3: cosh(.5) - 1 = .1276 and cosh(.1) - 1 = .0050.
    close(k3_below(0.01)(b), [[0.0, 0.0], [1.0, 1.0]])
    assert k3_below(0.1277)(b).all()
    assert not k3_below(0.1276)(b)[0].any()


def test_one_impossible_token_vetoes_its_rollout_and_no_other():
    b = mismatched([0.0, math.log(0.9e-4), 0.0], [0.0, math.log(1.1e-4), 0.0])
    close(veto(1e-4)(b), [[0.0] * 3, [1.0] * 3])


def test_a_vetoed_rollout_has_no_gradient_and_the_others_weigh_what_they_are_told():
    b = mismatched([0.0, math.log(0.9e-4)], [0.5, -0.5])
    assert b.old_log_probs is not None
    for estimator, weights in (
        (veto_rs(), [1.0, 1.0]),
        (veto_rs(weight=token_ratio), [math.exp(0.5), math.exp(-0.5)]),
    ):
        leaf = b.old_log_probs.clone().requires_grad_()
        advantages = torch.ones_like(leaf)
        estimator.loss(leaf, b, advantages=advantages, total=estimator.total(b)).backward()
        assert leaf.grad is not None
        close(-4 * leaf.grad, [[0.0, 0.0], weights])


def kl(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_kpop_keeps_a_rare_token_at_ratio_five_and_drops_a_likely_one_at_two():
    mu, old = [0.01, 0.4], [0.05, 0.8]
    b = batch(
        [[1, 1]],
        behaviour_log_probs=torch.tensor([mu], dtype=T64).log(),
        old_log_probs=torch.tensor([old], dtype=T64).log(),
    )
    close(kpop(0.1)(b), [[1.0, 0.0]])
    close(kpop(0.1, weight=token_ratio)(b), [[5.0, 0.0]])
    close(token_band(floor=0.5, ceiling=2.5)(b), [[0.0, 2.0]])


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1 - 1e-6))
def test_kpop_is_its_slow_twin_in_both_directions(mu: float, old: float):
    worst = max(kl(old, mu), kl(mu, old))
    b = batch(
        [[1]],
        behaviour_log_probs=torch.tensor([[mu]], dtype=T64).log(),
        old_log_probs=torch.tensor([[old]], dtype=T64).log(),
    )
    assert kpop(worst * (1 + 1e-6) + 1e-12)(b).item() == 1.0
    if worst > 1e-9:
        assert kpop(worst * (1 - 1e-6))(b).item() == 0.0


def test_kpop_at_a_certain_token():
    """A log-prob of zero is rounded, and agreement about it is agreement."""
    zero, likely = torch.zeros(1, 2, dtype=torch.float32), torch.tensor([[0.0, math.log(0.5)]])
    b = batch([[1, 1]], torch.float32, behaviour_log_probs=zero, old_log_probs=likely)
    close(kpop(0.1)(b), [[1.0, 0.0]])


@given(ratios, st.floats(0.01, 1), st.floats(1, 10), st.floats(1, 3))
def test_a_wider_band_keeps_whatever_a_narrower_one_kept(log_rho, floor, ceiling, more):
    b = mismatched(log_rho)
    for make, pure in (
        (token_band, token_ratio),
        (sequence_band, sequence_ratio),
        (geometric_band, unweighted),
    ):
        narrow, wide = (
            make(floor=floor, ceiling=ceiling)(b),
            make(floor=floor / more, ceiling=ceiling * more)(b),
        )
        assert ((narrow == wide) | (narrow == 0)).all()
        assert torch.equal(make(floor=0.0, ceiling=math.inf)(b), pure(b))
    for make in (k3_below, kpop):
        assert (make(0.1)(b) <= make(0.1 * more)(b)).all()
        assert torch.equal(make(math.inf)(b), unweighted(b))


def unit_loss(b: Batch, correction: Correction, aggregate=token_mean, *, kept_only: bool = False) -> float:
    """Loss at pi = pi_old with A = -1: the weights themselves, averaged."""
    estimator = Estimator(
        advantage=unweighted,
        log_ratio=per_token_old,
        trust=importance_weighted,
        aggregate=aggregate,
        correction=correction,
        kept_only=kept_only,
    )
    assert b.old_log_probs is not None
    return estimator.loss(b.old_log_probs, b, advantages=-unweighted(b), total=estimator.total(b)).item()


def test_a33_whether_dropped_tokens_stay_in_the_divisor_is_an_option():
    b, band = mismatched([0.1, -1.5, 0.8, -10.0, 0.3]), token_band(floor=0.5, ceiling=2.0)
    assert unit_loss(b, band) == pytest.approx(0.491006, abs=5e-7)
    assert unit_loss(b, band, kept_only=True) == pytest.approx(1.227515, abs=5e-7)


def test_a33_dropped_rollouts_in_the_divisor_of_a_mean_over_rollouts():
    b, band = mismatched([0.1, 0.1], [5.0, 5.0]), sequence_band(floor=0.5, ceiling=2.0, weight=unweighted)
    assert unit_loss(b, band, sequence_mean) == pytest.approx(0.5)
    assert unit_loss(b, band, sequence_mean, kept_only=True) == pytest.approx(1.0)


def test_every_token_dropped_is_zero_however_one_counts():
    b, band = mismatched([5.0, 5.0]), token_band(floor=0.5, ceiling=2.0)
    assert unit_loss(b, band) == 0.0
    assert unit_loss(b, band, kept_only=True) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: token_band(floor=0.2, ceiling=0.28), "got 0.2 and 0.28: bounds, not half-widths"),
        (lambda: sequence_band(floor=1.5, ceiling=2.0), "floor"),
        (lambda: geometric_band(floor=-0.1, ceiling=2.0), "floor"),
        (lambda: k3_below(0.0), "limit must be positive, got 0.0"),
        (lambda: veto(1.0), "minimum must lie in"),
        (lambda: kpop(-1.0), "delta must be positive, got -1.0"),
    ],
)
def test_a_bad_choice_is_refused_with_its_name_and_value(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()
