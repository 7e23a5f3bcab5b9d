import math

import pytest
import torch
from torch import Tensor

from algorithms.advantage import reward_minus_value
from algorithms.aggregate import Aggregate, constant, sequence_mean, token_mean
from algorithms.estimator import Estimator
from algorithms.ratio import per_token
from algorithms.trust import double_sided_mask, inside
from tests.algorithms.make import T64, batch, rows


def lengths_mask(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def aggregate_and_weights(how: Aggregate, terms: Tensor, mask: Tensor) -> tuple[float, Tensor]:
    terms = terms.clone().requires_grad_()
    value = how.reduce(terms, mask, how.count(mask))
    (weights,) = torch.autograd.grad(value, terms)
    return value.item(), weights


@pytest.mark.parametrize(
    ("how", "value", "short", "long"),
    [(token_mean, 0.2, 0.1, 0.1), (sequence_mean, 0.5, 0.25, 0.0625), (constant(10), 0.1, 0.05, 0.05)],
)
def test_a27_the_choice_sets_each_tokens_weight(how: Aggregate, value: float, short: float, long: float):
    mask = lengths_mask(2, 8)
    terms = torch.tensor([[1.0], [0.0]], dtype=T64).expand(2, 8)
    got, weights = aggregate_and_weights(how, terms, mask)
    assert got == pytest.approx(value)
    assert weights[0, 0].item() == pytest.approx(short)
    assert weights[1, 0].item() == pytest.approx(long)


def test_a29_the_divisor_is_the_whole_batchs():
    ones, zeros = torch.ones(1, 2, dtype=T64), torch.zeros(1, 8, dtype=T64)
    total = torch.tensor(10)
    parts = [token_mean.reduce(x, torch.ones_like(x, dtype=torch.bool), total) for x in (ones, zeros)]
    assert sum(parts).item() == pytest.approx(0.2)
    # (1 rollout, 2 tokens, sum 2) and (3 rollouts, 30 tokens, sum 0): 2/32.
    terms = torch.zeros(4, 10, dtype=T64)
    terms[0] = 1.0
    assert aggregate_and_weights(token_mean, terms, lengths_mask(2, 10, 10, 10))[0] == pytest.approx(0.0625)


@pytest.mark.parametrize("how", [token_mean, sequence_mean, constant(5)])
def test_a32_nothing_masked_in_is_zero_with_zero_gradients(how: Aggregate):
    value, weights = aggregate_and_weights(
        how, torch.full((2, 3), math.nan, dtype=T64), torch.zeros(2, 3, dtype=torch.bool)
    )
    assert value == 0.0
    assert (weights == 0).all()


@pytest.mark.parametrize(("how", "wanted"), [(token_mean, 1.0), (sequence_mean, 1.0), (constant(4), 1.0)])
def test_a32_a_fully_masked_row_counts_as_no_rollout(how: Aggregate, wanted: float):
    mask = torch.tensor([[True] * 4, [False] * 4])
    assert aggregate_and_weights(how, torch.ones(2, 4, dtype=T64), mask)[0] == wanted


def test_a33_are_dropped_tokens_in_the_divisor():
    """log-ratio [.1,-1.5,.8,-10,.3], band [.5,2], loss = ratio: kept sum 2.45503, over 5 or over 2."""
    log_ratio = torch.tensor([[0.1, -1.5, 0.8, -10.0, 0.3]], dtype=T64)
    b = batch([[1] * 5], behaviour_log_probs=-1.0 - log_ratio, values=torch.zeros(1, 5, dtype=T64))
    log_probs = torch.full((1, 5), -1.0, dtype=T64)
    fixed = Estimator(
        advantage=reward_minus_value,
        log_ratio=per_token,
        trust=double_sided_mask(0.5, 1.0),
        aggregate=token_mean,
    )
    kept_only = Estimator(
        advantage=reward_minus_value,
        log_ratio=per_token,
        trust=double_sided_mask(0.5, 1.0),
        aggregate=token_mean,
        counted=inside(0.5, 1.0),
    )
    for estimator, wanted in ((fixed, 0.491006), (kept_only, 1.227515)):
        total = estimator.total(b, log_probs)
        loss = estimator.loss(log_probs, b, advantages=torch.ones(1, 5, dtype=T64), total=total)
        assert loss.item() == pytest.approx(wanted, abs=5e-7)
    with pytest.raises(ValueError, match="needs log_probs"):
        kept_only.total(b)


@pytest.mark.parametrize("tokens", [0, -1, math.inf, math.nan])
def test_a_constant_divisor_must_be_a_positive_number(tokens: float):
    with pytest.raises(ValueError, match="tokens must be positive"):
        constant(tokens)


def test_observations_weigh_nothing():
    mask = rows([1, 0, 1], dtype=torch.long).bool()
    _, weights = aggregate_and_weights(token_mean, torch.ones(1, 3, dtype=T64), mask)
    assert weights.tolist() == [[0.5, 0.0, 0.5]]
