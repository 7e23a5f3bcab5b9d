"""M2PO's two bounds against hand arithmetic, bisection and an exhaustive search."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.aggregate import token_mean
from algorithms.correction import token_ratio, unweighted
from algorithms.decoupled import decoupled_ppo
from algorithms.estimator import Estimator
from algorithms.m2po import largest_kept, m2po, m2po_areal, moment_clip
from algorithms.ratio import per_token
from algorithms.trust import importance_weighted
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch

distances = st.lists(st.floats(-5, 5), min_size=1, max_size=12)


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=T64)


def gradient(estimator: Estimator, log_ratios: list[float], advantages: list[float]) -> Tensor:
    """-N d loss / d log pi of one rollout's N tokens, with pi_old at -1."""
    record = batch([[1] * len(log_ratios)], old_log_probs=rows([-1.0] * len(log_ratios)))
    leaf = (rows(log_ratios) - 1.0).requires_grad_()
    fixed = estimator.fixed(leaf, record, rows(advantages))
    loss = fixed.loss(leaf, record, advantages=rows(advantages), total=fixed.total(record))
    return -len(log_ratios) * torch.autograd.grad(loss, leaf)[0][0]


def close(got: Tensor, wanted: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=1e-12, rtol=1e-12)


def test_the_clip_by_hand():
    # Squares .01, .09 and .25 against a budget of .12 in all: .01 whole leaves (.12 - .01) / 2 for each.
    assert moment_clip(tensor([0.1, 0.5, -0.3]), budget=0.04) == pytest.approx(math.sqrt(0.055))
    assert moment_clip(tensor([0.1, 0.2, -0.2]), budget=0.04) == math.inf
    assert moment_clip(tensor([3.0]), budget=0.04) == pytest.approx(0.2)


@given(distances, st.floats(1e-6, 1))
def test_the_clip_spends_the_budget_as_bisection_would(log_ratios: list[float], budget: float):
    squares = [x * x for x in log_ratios]
    tau = moment_clip(tensor(log_ratios), budget=budget)
    if tau == math.inf:
        assert sum(squares) <= len(squares) * budget * (1 + 1e-9)
        return
    low, high = 0.0, max(squares)
    for _ in range(100):
        middle = (low + high) / 2
        spent = sum(min(d, middle) for d in squares) / len(squares)
        low, high = (middle, high) if spent < budget else (low, middle)
    assert tau**2 == pytest.approx(high, rel=1e-9)
    assert tau >= math.sqrt(budget) * (1 - 1e-12)


@given(distances, st.floats(1e-6, 1), st.floats(1, 5))
def test_a_larger_budget_clips_no_tighter(log_ratios: list[float], budget: float, more: float):
    narrow = moment_clip(tensor(log_ratios), budget=budget)
    assert narrow <= moment_clip(tensor(log_ratios), budget=budget * more) * (1 + 1e-12)


def test_an_outlier_of_any_size_costs_the_others_no_more():
    for size in (100.0, 1e8, math.inf):
        assert moment_clip(tensor([0.1, size, -size]), budget=0.04) == pytest.approx(math.sqrt(0.055))


def test_without_tokens_nothing_is_bounded():
    assert moment_clip(tensor([]), budget=0.04) == largest_kept(tensor([]), budget=0.04) == math.inf


def test_only_harmful_tokens_count_and_only_they_are_clipped():
    log_ratios, advantages = [0.1, 0.5, -0.3, -2.0, 2.0, 2.0], [1.0, 2.0, -1.0, 1.0, -1.0, 0.0]
    wanted = [math.exp(0.1), 0.0, 0.0, math.exp(-2.0), -math.exp(2.0), 0.0]
    close(gradient(m2po(), log_ratios, advantages), wanted)


def test_a_clipped_token_keeps_the_value_of_the_edge():
    record = batch([[1, 1, 1]], old_log_probs=rows([-1.0] * 3))
    policy, advantages = rows([-0.9, -0.5, -1.3]), rows([1.0, 2.0, -1.0])
    tau = math.sqrt(0.055)
    fixed = m2po().fixed(policy, record, advantages)
    close(fixed.surrogate(policy, record, advantages)[0], [math.exp(0.1), 2 * math.exp(tau), -math.exp(-tau)])


def test_a_batch_that_moved_little_is_not_clipped_at_all():
    quiet = [0.35, *[0.01] * 9]
    close(gradient(m2po(), quiet, [1.0] * 10), [math.exp(x) for x in quiet])


def test_the_clip_is_never_tighter_than_the_least_one():
    far = [0.39, 0.42, -0.34, -0.37, 5.0, -5.0]
    signs = [1.0, 1.0, -1.0, -1.0, 1.0, -1.0]
    # log 1.5 = .405 and log .7 = -.357.
    wanted = [math.exp(0.39), 0.0, -math.exp(-0.34), 0.0, 0.0, 0.0]
    close(gradient(m2po(budget=1e-4, least_low=0.3, least_high=0.5), far, signs), wanted)


def test_limits_of_the_budget():
    record, policy = random_batch(0), policy_near(random_batch(0), 0.5)
    for own in (m2po(budget=math.inf), m2po(budget=1e6)):
        free = Estimator(
            advantage=own.advantage, log_ratio=own.log_ratio, trust=importance_weighted, aggregate=token_mean
        )
        for got, wanted in zip(
            loss_and_gradient(own, policy, record), loss_and_gradient(free, policy, record), strict=True
        ):
            assert torch.equal(got, wanted)
    close(gradient(m2po(budget=1e-300), [0.1, -0.1], [1.0, 1.0]), [0.0, math.exp(-0.1)])


def test_no_jump_where_the_budget_begins_to_bind():
    log_ratios, advantages = [0.1, 0.5, -0.3], [1.0, 2.0, -1.0]
    mean = (0.01 + 0.25 + 0.09) / 3
    record = batch([[1, 1, 1]], old_log_probs=rows([-1.0] * 3))
    policy = rows(log_ratios) - 1.0

    def value(budget: float) -> Tensor:
        own = m2po(budget=budget).fixed(policy, record, rows(advantages))
        return own.surrogate(policy, record, rows(advantages))

    torch.testing.assert_close(value(mean * (1 - 1e-10)), value(mean * (1 + 1e-10)), atol=1e-8, rtol=0)


def test_before_the_first_update_the_moment_is_zero_against_pi_old_and_not_against_the_engine():
    record = batch([[1, 1]], behaviour_log_probs=rows([-3.0, -1.0]), old_log_probs=rows([-1.0, -1.0]))
    policy, advantages = rows([-1.0, -1.0]), rows([1.0, 1.0])
    assert m2po().fixed(policy, record, advantages).surrogate(policy, record, advantages).sum().item() == 2.0
    engine = m2po(log_ratio=per_token).fixed(policy, record, advantages)
    assert engine.surrogate(policy, record, advantages)[0, 0].item() == pytest.approx(math.exp(0.2))


def kept(log_mismatch: list[float], budget: float = 0.04) -> list[float]:
    """Weights that AReaL's form leaves one rollout's tokens, unweighted."""
    n = len(log_mismatch)
    record = batch([[1] * n], behaviour_log_probs=rows([-1.0] * n), old_log_probs=rows(log_mismatch) - 1.0)
    fixed = m2po_areal(budget=budget, weight=unweighted).fixed(rows([-1.0] * n), record, rows([1.0] * n))
    assert fixed.correction is not None
    assert fixed.total(record).item() == sum(fixed.correction(record)[0])
    return fixed.correction(record)[0].tolist()


def test_the_largest_are_dropped_by_hand():
    # Squares .01, .25, .09, .04: without .25 their mean is .0467, without .09 too it is .025.
    assert kept([0.1, 0.5, -0.3, 0.2]) == [1.0, 0.0, 0.0, 1.0]
    assert kept([0.1, 0.5, -0.3, 0.2], budget=0.05) == [1.0, 0.0, 1.0, 1.0]
    assert kept([0.1, -0.1]) == [1.0, 1.0]


def test_a_mean_that_equals_the_budget_is_not_below_it():
    assert kept([0.0, 1.0], budget=0.5) == [1.0, 0.0]


def test_one_token_at_least_stays_and_equals_share_a_fate():
    assert kept([3.0, -2.0, 100.0]) == [0.0, 1.0, 0.0]
    assert kept([1.0, -1.0, 1.0]) == [1.0, 1.0, 1.0]
    # One of the two .3 could stay, were a sort to decide which.
    assert kept([0.0, 0.0, 0.3, -0.3], budget=0.04) == [1.0, 1.0, 0.0, 0.0]


@given(st.lists(st.sampled_from([0, 1, 2, 4, 16, 64, 640_000]), min_size=1, max_size=10), st.integers(1, 40))
def test_what_stays_is_the_largest_set_that_an_exhaustive_search_finds(units: list[int], budget: int):
    # In units of 1/64, so that every sum is exact.
    fits = [v for v in set(units) if sum(u for u in units if u <= v) < budget * sum(u <= v for u in units)]
    wanted = max(fits, default=min(units))
    limit = largest_kept(tensor([u / 64 for u in units]), budget=budget / 64)
    assert [u / 64 <= limit for u in units] == [u <= wanted for u in units]


def test_a_token_that_stays_weighs_its_ratio_and_a_dropped_one_leaves_the_divisor():
    record = batch([[1, 1, 1]], behaviour_log_probs=rows([-1.0] * 3), old_log_probs=rows([-0.9, -0.5, -1.1]))
    policy, advantages = record.old_log_probs, rows([1.0, 1.0, 1.0])
    assert policy is not None
    for kept_only, divisor in ((True, 2), (False, 3)):
        fixed = m2po_areal(kept_only=kept_only).fixed(policy, record, advantages)
        loss = fixed.loss(policy, record, advantages=advantages, total=fixed.total(record))
        assert loss.item() == pytest.approx(-(math.exp(0.1) + math.exp(-0.1)) / divisor)


def test_with_an_endless_budget_the_form_that_drops_is_decoupled_ppo():
    record, policy = random_batch(1), policy_near(random_batch(1), 0.5)
    wanted = loss_and_gradient(decoupled_ppo(correction=token_ratio, aggregate=token_mean), policy, record)
    for got, own in zip(loss_and_gradient(m2po_areal(budget=math.inf), policy, record), wanted, strict=True):
        assert torch.equal(got, own)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: m2po(budget=0.0), "budget must be positive, got 0"),
        (lambda: m2po_areal(budget=math.nan), "budget must be positive, got nan"),
        (lambda: m2po(least_low=1.0), r"least_low must lie in \[0, 1\), got 1"),
        (lambda: m2po(least_high=-0.1), r"least_high must not be negative, got -0.1"),
    ],
)
def test_refusals(make, match: str):
    with pytest.raises(ValueError, match=match):
        make()
