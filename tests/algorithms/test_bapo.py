"""BAPO's search against hand arithmetic and a slow twin."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.bapo import bapo, contributions, high_then_low
from algorithms.estimator import Estimator
from algorithms.trust import dual_clip
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch

# Good: 1 inside the first bounds, 1.52 above. Bad: .72 inside and 1.
RATIOS, ADVANTAGES = [1.0, 1.52, 0.72, 1.0], [1.0, 1.0, -1.0, -1.0]


def settled(estimator: Estimator, ratios: list[float], advantages: list[float]) -> Estimator:
    record = batch([[1] * len(ratios)], old_log_probs=rows([-1.0] * len(ratios)))
    return estimator.fixed(rows([math.log(r) for r in ratios]) - 1.0, record, rows(advantages))


def bounds(estimator: Estimator) -> tuple[float, float, float]:
    """Lower and upper bound and dual cap, read off the surrogate far beyond each."""
    far, signs = torch.tensor([[-15.0, 15.0, 15.0]], dtype=T64), torch.tensor([[-1.0, 1.0, -1.0]], dtype=T64)
    low, high, cap = (signs * estimator.trust(far, signs, far))[0].tolist()
    return low, high, cap


def found(ratios: list[float], advantages: list[float], **options) -> tuple[float, float]:
    return bounds(settled(bapo(**options), ratios, advantages))[:2]


def test_the_lower_bound_rises_first():
    # S+ = 1 against 1.72, until .75 leaves the bad token at .72 out.
    assert found(RATIOS, ADVANTAGES) == pytest.approx((0.75, 1.2))


def test_then_the_upper_one():
    # 1 against 1 falls short of 1.2, so low ends at .8 and high lets 1.52 in.
    assert found(RATIOS, ADVANTAGES, target=1.2) == pytest.approx((0.8, 1.55))


def test_the_other_order():
    # 2.52 against 1.72 is enough with every bad token in.
    assert found(RATIOS, ADVANTAGES, order=high_then_low) == pytest.approx((0.6, 1.55))
    assert found(RATIOS, ADVANTAGES, order=high_then_low, target=2.0) == pytest.approx((0.75, 2.0))


def test_out_of_reach_the_search_ends_at_the_last_bounds():
    assert found([1.0], [-1.0]) == pytest.approx((0.8, 2.0))
    assert found(RATIOS, ADVANTAGES, target=9.0) == pytest.approx((0.8, 2.0))


@pytest.mark.parametrize("advantages", [[1.0, 0.5], [0.0, 0.0], [1.0, 0.0]])
def test_without_bad_tokens_it_does_not_begin(advantages: list[float]):
    assert found([1.0, 5.0], advantages) == pytest.approx((0.6, 1.2))


def test_a_balance_of_one_is_enough_however_it_was_rounded():
    third = 1 / 3
    assert found([1.0] * 4, [third, third, third, -3 * third * (1 + 1e-15)]) == pytest.approx((0.6, 1.2))


def test_the_scripts_bounds_and_its_target():
    ratios, advantages = [1.0, 0.83, 1.0], [0.6, -0.5, -1.0]
    assert found(ratios, advantages, low=(0.8, 0.95), target=0.5) == pytest.approx((0.85, 1.2))


def test_steps_end_on_the_last_bound_and_the_last_step_may_be_shorter():
    seen: list[tuple[list[float], list[float]]] = []

    def order(lows, highs):
        seen.append((lows, highs))
        return [(lows[0], highs[0])]

    bapo(order=order)
    bapo(order=order, low=(0.6, 0.7), step_low=0.04, high=(1.5, 1.5))
    assert seen[0][0] == pytest.approx([0.6, 0.65, 0.7, 0.75, 0.8])
    assert seen[0][1] == pytest.approx([1.2 + 0.05 * k for k in range(17)])
    assert seen[1] == (pytest.approx([0.6, 0.64, 0.68, 0.7]), [1.5])


def twin(ratios: list[float], advantages: list[float], target: float) -> tuple[float, float]:
    """Two loops in plain floats."""

    def enough(low: float, high: float) -> bool:
        pairs = list(zip(ratios, advantages, strict=True))
        good = sum(r * a for r, a in pairs if a > 0 and r <= high)
        bad = sum(-r * a for r, a in pairs if a < 0 and low <= r <= 3)
        return good >= target * bad * (1 - 1e-6)

    low, high = 0.6, 1.2
    while not enough(low, high) and low < 0.799:
        low += 0.05
    while not enough(low, high) and high < 1.999:
        high += 0.05
    return low, high


tokens = st.lists(
    st.tuples(st.floats(0.501, 3.5), st.floats(-2, 2).filter(lambda a: a == 0 or abs(a) > 1e-6)),
    min_size=1,
    max_size=12,
)


def off_the_edges(ratio: float) -> bool:
    return abs(ratio / 0.05 - round(ratio / 0.05)) > 1e-6


@given(tokens, st.sampled_from([0.3, 0.5, 1.0, 1.7]))
def test_the_search_is_its_slow_twin(drawn: list[tuple[float, float]], target: float):
    ratios, advantages = (list(x) for x in zip(*[(r + 0.0123, a) for r, a in drawn], strict=True))
    if all(map(off_the_edges, ratios)):
        assert found(ratios, advantages, target=target) == pytest.approx(twin(ratios, advantages, target))


@given(tokens, st.floats(0.1, 0.9), st.floats(1.1, 3), st.floats(1, 2))
def test_either_bound_only_ever_helps_the_good(drawn, low: float, high: float, more: float):
    log_ratio = torch.tensor([[math.log(r) for r, _ in drawn]], dtype=T64)
    advantages = torch.tensor([[a for _, a in drawn]], dtype=T64)
    everything = torch.ones_like(log_ratio).bool()

    def both(low: float, high: float) -> tuple[float, float]:
        return contributions(log_ratio, advantages, everything, low=low, high=high)

    good, bad = both(low, high)
    assert both(low, high * more)[0] >= good - 1e-12
    assert both(min(0.99, low * more), high)[1] <= bad + 1e-12


def test_what_counts_is_what_keeps_its_gradient():
    record, policy = random_batch(2), policy_near(random_batch(2), 1.0)
    estimator = bapo()
    log_ratio = estimator.log_ratio(policy, record).requires_grad_()
    advantages = estimator.advantage(record)
    slope = torch.autograd.grad(estimator.trust(log_ratio, advantages, policy).sum(), log_ratio)[0]
    wanted = slope.clamp(min=0).sum().item(), -slope.clamp(max=0).sum().item()
    got = contributions(log_ratio.detach(), advantages, record.action_mask, low=0.6, high=1.2, cap=3.0)
    assert got == pytest.approx(wanted)


def test_masked_tokens_have_no_say_and_e_to_the_hundred_is_a_ratio():
    log_ratio, everything = torch.tensor([[100.0, -100.0, 0.0]]), torch.ones(1, 3).bool()
    assert contributions(log_ratio, -torch.ones(1, 3), everything, low=0.5, high=2.0, cap=3.0) == (0.0, 1.0)
    loud = contributions(log_ratio, -torch.ones(1, 3), everything, low=0.5, high=2.0)[1]
    assert loud == pytest.approx(math.exp(20) + 1)
    assert contributions(log_ratio, -torch.ones(1, 3), ~everything, low=0.5, high=2.0) == (0.0, 0.0)


def losses(estimator: Estimator) -> tuple[Tensor, Tensor]:
    return loss_and_gradient(estimator, policy_near(random_batch(3), 0.7), random_batch(3))


def test_a_target_of_zero_or_bounds_that_cannot_move_are_a_dual_clip():
    own = bapo(target=0.0)
    wanted = losses(dataclasses.replace(own, trust=dual_clip(0.4, 0.2), adapt=None))
    for same in (own, bapo(low=(0.6, 0.6), high=(1.2, 1.2))):
        for got, want in zip(losses(same), wanted, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


def test_bounds_without_limit_clip_nothing():
    free = bapo(low=(1e-9, 1e-9), high=(1e8, 1e8), cap=math.inf)
    record, policy = random_batch(3), policy_near(random_batch(3), 0.7)
    _, got = loss_and_gradient(free, policy, record)
    advantages = free.advantage(record)
    ratio = free.log_ratio(policy, record).exp()
    wanted = -(ratio * advantages).where(record.action_mask, 0.0) / record.action_mask.sum()
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: bapo(low=(0.2, 1.0)), r"low must satisfy 0 < first <= last < 1"),
        (lambda: bapo(low=(0.8, 0.6)), r"low must satisfy .* got \(0.8, 0.6\)"),
        (lambda: bapo(high=(0.2, 0.28)), r"high must satisfy 1 < first"),
        (lambda: bapo(step_low=0.0), r"step_low must be positive, got 0"),
        (lambda: bapo(step_high=-1.0), r"step_high must be positive, got -1"),
        (lambda: bapo(target=math.inf), r"target must be finite and not negative, got inf"),
        (lambda: bapo(cap=1.0), r"cap must exceed 1, got 1"),
    ],
)
def test_refusals(make, match: str):
    with pytest.raises(ValueError, match=match):
        make()
