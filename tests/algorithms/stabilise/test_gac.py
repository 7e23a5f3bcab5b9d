"""Gradient Alignment Control: what it may do to a vector, and what it must leave alone."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.stabilise.gac import (
    Attenuation,
    Controlled,
    align,
    down_to_threshold,
    fixed_share,
    inner_products,
)
from tests.algorithms.make import T64

vectors = st.integers(2, 6).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(-10, 10), min_size=n, max_size=n)] * 2)
)


def control(gradient: Tensor, previous: Tensor | None, **options: float | Attenuation) -> Controlled:
    now, before = (gradient,), None if previous is None else (previous,)
    return align(now, before, products=inner_products(now, before), **options)


def pair(both: tuple[list[float], list[float]]) -> tuple[Tensor, Tensor]:
    gradient, previous = (torch.tensor(v, dtype=T64) for v in both)
    assume(min(gradient.norm(), previous.norm()) > 1e-3)
    return gradient, previous


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / (a.norm() * b.norm()))


def test_by_hand():
    """(3, 4) against (1, 0): cosine .6. At a threshold of .5 the parallel part becomes 4 / sqrt(3)."""
    gradient, previous = torch.tensor([3.0, 4.0], dtype=T64), torch.tensor([2.0, 0.0], dtype=T64)
    found = control(gradient, previous, attenuate_above=0.5, skip_above=0.9)
    assert found.cosine == pytest.approx(0.6)
    torch.testing.assert_close(found.gradient[0], torch.tensor([4 / math.sqrt(3), 4.0], dtype=T64))
    half = control(gradient, previous, attenuate_above=0.5, skip_above=0.9, attenuation=fixed_share(0.5))
    torch.testing.assert_close(half.gradient[0], torch.tensor([1.5, 4.0], dtype=T64))
    assert half.kept == 0.5
    skipped = control(gradient, previous, attenuate_above=0.1, skip_above=0.59)
    assert skipped.skipped
    assert (skipped.gradient[0] == 0).all()
    assert torch.equal(skipped.previous[0], gradient)


@given(vectors)
def test_to_keep_everything_is_the_identity(both):
    gradient, previous = pair(both)
    found = control(gradient, previous, attenuate_above=0.0, skip_above=1.0, attenuation=fixed_share(1.0))
    assert torch.equal(found.gradient[0], gradient)
    assert not found.skipped


@given(vectors, st.floats(0, 0.99))
def test_orthogonal_and_opposed_gradients_pass_untouched(both, threshold: float):
    gradient, previous = pair(both)
    opposed = gradient if gradient @ previous <= 0 else -gradient
    turned = torch.cat([-previous[1:2], previous[:1], torch.zeros(len(previous) - 2, dtype=T64)])
    for harmless in (opposed, turned):
        assume(harmless.norm() > 0)
        found = control(harmless, previous, attenuate_above=threshold, skip_above=1.0)
        assert torch.equal(found.gradient[0], harmless)
        assert found.kept == 1.0


@given(vectors, st.floats(0, 0.99), st.one_of(st.none(), st.floats(0, 1)))
def test_the_norm_never_grows_and_the_cosine_never_does(both, threshold: float, share: float | None):
    gradient, previous = pair(both)
    attenuation = down_to_threshold if share is None else fixed_share(share)
    found = control(gradient, previous, attenuate_above=threshold, skip_above=1.0, attenuation=attenuation)
    shaped = found.gradient[0]
    assert shaped.norm() <= gradient.norm() * (1 + 1e-12)
    # Nothing but the parallel part changes, and it is never turned around.
    along = previous / previous.norm()
    torch.testing.assert_close(
        shaped - (shaped @ along) * along, gradient - (gradient @ along) * along, rtol=0, atol=1e-12
    )
    if gradient @ previous > 0:
        assert -1e-12 <= shaped @ along <= gradient @ along + 1e-12
    assume(shaped.norm() > 1e-6)
    assert cosine(shaped, previous) <= cosine(gradient, previous) + 1e-9
    if share is None:
        assert cosine(shaped, previous) <= threshold + 1e-4


@given(vectors, st.floats(0, 0.9), st.floats(0, 1))
def test_beyond_the_second_threshold_there_is_no_update(both, first: float, second: float):
    gradient, previous = pair(both)
    assume(second >= first)
    found = control(gradient, previous, attenuate_above=first, skip_above=second)
    assume(abs(found.cosine - second) > 1e-9)
    assert found.skipped == (found.cosine > second and second < 1)
    assert found.skipped == (not found.gradient[0].any()) or found.cosine > 1 - 1e-9


@given(vectors, st.floats(1e-3, 1e3))
def test_the_control_has_no_unit(both, unit: float):
    gradient, previous = pair(both)
    once = control(gradient, previous, attenuate_above=0.2, skip_above=1.0).gradient[0]
    # Near-parallel gradients leave a part that is all rounding: the root of an epsilon.
    noise = 1e-6 * float(gradient.norm())
    louder = control(unit * gradient, previous, attenuate_above=0.2, skip_above=1.0).gradient[0]
    torch.testing.assert_close(louder / unit, once, rtol=0, atol=noise)
    after = control(gradient, unit * previous, attenuate_above=0.2, skip_above=1.0).gradient[0]
    torch.testing.assert_close(after, once, rtol=0, atol=noise)


def test_a_flat_vector_and_its_pieces_are_one_gradient_and_shards_add_up():
    g = torch.Generator().manual_seed(0)
    previous = torch.randn(12, generator=g, dtype=T64)
    gradient = torch.randn(12, generator=g, dtype=T64) + previous
    flat = control(gradient, previous, attenuate_above=0.1, skip_above=1.0)
    assert 0 < flat.kept < 1
    now, before = ([*x[:4], x[4:].reshape(2, 4)] for x in (gradient, previous))
    products = inner_products(now, before)
    shards = inner_products(now[:3], before[:3]) + inner_products(now[3:], before[3:])
    torch.testing.assert_close(shards, products)
    pieces = align(now, before, products=products, attenuate_above=0.1, skip_above=1.0)
    torch.testing.assert_close(torch.cat([p.flatten() for p in pieces.gradient]), flat.gradient[0])
    assert pieces.gradient[-1].shape == (2, 4)


def test_the_threshold_is_met_without_a_jump():
    assert down_to_threshold(0.3, 0.3) == pytest.approx(1)
    assert down_to_threshold(1.0, 0.3) == down_to_threshold(0.7, 0.0) == 0
    shares = [down_to_threshold(c / 100, 0.3) for c in range(30, 101)]
    assert shares == sorted(shares, reverse=True)


def test_the_first_update_and_zero_gradients_have_no_cosine_and_pass():
    one, zero = torch.ones(3), torch.zeros(3)
    for gradient, previous in ((one, None), (one, zero), (zero, one), (one * math.nan, one)):
        found = control(gradient, previous)
        assert math.isnan(found.cosine)
        assert torch.equal(found.gradient[0].nan_to_num(), gradient.nan_to_num())
        assert not found.skipped
        assert found.kept == 1


def test_what_is_remembered_is_a_copy_and_the_types_stay():
    gradient, previous = torch.ones(2, dtype=torch.bfloat16), torch.tensor([1.0, 0.0], dtype=torch.bfloat16)
    found = control(gradient, previous, attenuate_above=0.1, skip_above=0.9)
    assert found.gradient[0].dtype == torch.bfloat16
    gradient.zero_()
    assert (found.previous[0] == 1).all()


def test_single_precision_gradients_of_any_size_have_their_cosine():
    for size in (1e-30, 1e30):
        found = control(torch.tensor([size, size]), torch.tensor([size, 0.0]), skip_above=0.9)
        assert found.cosine == pytest.approx(math.sqrt(0.5))
        assert found.gradient[0].isfinite().all()


def late(updates: int, seed: int, *, controlled: bool) -> Tensor:
    """Descent on curvatures .5 and .4 with noisy gradients four updates old, whose limit is .347."""
    g = torch.Generator().manual_seed(seed)
    curvature = torch.tensor([0.5] + [0.4] * 7, dtype=T64)
    x, previous = [torch.ones(8, dtype=T64)] * 5, None
    for _ in range(updates):
        step = curvature * x[-5] + 0.1 * torch.randn(8, generator=g, dtype=T64)
        if controlled:
            found = control(step, previous)
            (step,), (previous,) = found.gradient, found.previous
        x.append(x[-1] - step)
    return torch.stack(x[-20:])


@pytest.mark.parametrize("seed", range(3))
def test_a_delayed_system_beyond_its_limit_stays_bounded_under_the_control(seed: int):
    assert late(300, seed, controlled=False).norm(dim=-1).max() > 1e6
    assert late(300, seed, controlled=True).norm(dim=-1).max() < 3


def test_a_gradient_that_repeats_itself_is_skipped_for_ever_unless_a_skip_is_forgotten():
    gradient, previous, skipped = torch.ones(2, dtype=T64), None, []
    for _ in range(5):
        found = control(gradient, previous, skip_above=0.5)
        previous = found.previous[0]
        skipped.append(found.skipped)
    assert skipped == [False, True, True, True, True]
    previous, skipped = None, []
    for _ in range(5):
        found = control(gradient, previous, skip_above=0.5)
        previous = None if found.skipped else found.previous[0]
        skipped.append(found.skipped)
    assert skipped == [False, True, False, True, False]


def test_options_out_of_range_are_refused():
    g = torch.ones(2)
    with pytest.raises(ValueError, match=r"attenuate_above must lie in \[0, 1\), got 1.0"):
        control(g, g, attenuate_above=1.0, skip_above=1.0)
    with pytest.raises(ValueError, match=r"skip_above must not be below attenuate_above 0\.4, got 0\.2"):
        control(g, g, attenuate_above=0.4, skip_above=0.2)
    with pytest.raises(ValueError, match=r"kept must lie in \[0, 1\], got 1.5"):
        fixed_share(1.5)
    with pytest.raises(ValueError, match="shapes"):
        inner_products((g,), (torch.ones(3),))
