"""Reported faults of clips and masks, each with the numbers that are right."""

import pytest
import torch

from algorithms.aggregate import token_mean
from algorithms.correction import unweighted
from algorithms.diagnostics import gradient_flow
from algorithms.estimator import Estimator
from algorithms.ratio import per_token, per_token_old
from algorithms.rejection import token_band
from algorithms.trust import (
    TrustRegion,
    double_sided_mask,
    double_sided_mask_undetached,
    importance_weighted,
)
from algorithms.weighting import clipped_weight
from tests.algorithms.make import batch, rows

T64 = torch.float64


def loss_and_gradient(
    trust: TrustRegion, ratios: list[float], advantages: list[float], at: float = -1.0
) -> tuple[list[float], list[float]]:
    """Each token's loss and d loss / d log pi, for a policy whose log-prob is `at` everywhere."""
    leaf = torch.full((1, len(ratios)), at, dtype=T64, requires_grad=True)
    losses = -trust(leaf - leaf.detach() + rows(ratios).log(), rows(advantages), leaf)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    return losses[0].tolist(), gradient[0].tolist()


def near(*wanted: float):
    return pytest.approx(list(wanted), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("extreme", "floor", "ceiling"), [(1000.0, 0.5, 5.0), (100.0, 0.7, 6.0)])
def test_a_rejected_ratio_of_e_to_the_thousand_leaves_no_trace(extreme: float, floor: float, ceiling: float):
    """A13: log-ratios [1000, 0] and [100, 0], A = 1, mean over both: loss -.5, gradient [0, -.5]."""
    b = batch(
        [[1, 1]],
        torch.float32,
        behaviour_log_probs=torch.tensor([[-1.0 - extreme, -1.0]]),
        old_log_probs=torch.full((1, 2), -1.0),
    )
    estimator = Estimator(
        advantage=unweighted,
        log_ratio=per_token_old,
        trust=importance_weighted,
        aggregate=token_mean,
        correction=token_band(floor=floor, ceiling=ceiling),
    )
    leaf = torch.full((1, 2), -1.0, requires_grad=True)
    loss = estimator.loss(leaf, b, advantages=unweighted(b), total=estimator.total(b))
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert loss.item() == -0.5
    assert gradient.tolist() == [[0.0, -0.5]]
    # The mask of the score form drops the same token; its value is f A log pi, so +.5 at log pi = -1.
    mask = double_sided_mask(1 - floor, ceiling - 1)
    loss = -mask(per_token(leaf, b), torch.ones(1, 2), leaf).mean()
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert loss.item() == 0.5
    assert gradient.tolist() == [[0.0, -0.5]]
    # The multiply form for comparison: zero times infinity.
    raw = (leaf.detach() - b.behaviour_log_probs).exp()
    if extreme == 1000.0:
        assert (raw * torch.tensor([[0.0, 1.0]])).isnan().tolist() == [[True, False]]


def test_a_clipped_weight_is_detached():
    """A19: log pi = -2, A = 1, band [.8, 1.28]: -1.1 and -1.28; undetached the first would be +1.1."""
    assert loss_and_gradient(clipped_weight(0.2, 0.28), [1.1, 1.5], [1.0, 1.0], at=-2.0)[1] == near(
        -1.1, -1.28
    )
    undetached = loss_and_gradient(double_sided_mask_undetached(0.2, 0.28), [1.1], [1.0], at=-2.0)[1]
    assert undetached == near(1.1)


def test_epsilons_are_half_widths_and_not_bounds():
    """A54: (.8, 3) is the band (.2, 4): ratios .5 and 3.5 weigh themselves and nothing is masked."""
    masked = []
    for trust in (double_sided_mask(0.8, 3.0), double_sided_mask(1 - 0.8, 3.0 - 1)):
        leaf = torch.full((1, 2), -1.0, dtype=T64, requires_grad=True)
        log_ratio = rows([0.5, 3.5]).log()
        surrogate = trust(log_ratio, torch.ones_like(leaf), leaf)
        (gradient,) = torch.autograd.grad(surrogate.sum(), leaf)
        masked.append(
            (
                gradient[0].tolist(),
                gradient_flow(
                    surrogate, gradient, torch.ones_like(leaf), torch.ones(1, 2, dtype=torch.bool)
                ).masked,
            )
        )
    assert masked == [(near(0.5, 3.5), 0.0), ([0.0, 0.0], 1.0)]
    for swapped in ((3.0, 0.8), (1.5, 5.0)):
        with pytest.raises(ValueError, match="an epsilon, not a bound"):
            double_sided_mask(*swapped)
