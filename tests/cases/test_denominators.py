"""Reported faults of means over tokens, rollouts and micro-batches, each with the numbers that are right."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from algorithms.aggregate import Aggregate, constant, sequence_mean, token_mean
from algorithms.correction import unweighted
from algorithms.estimator import Estimator
from algorithms.grpo import grpo_dis
from algorithms.gspo import averaged, averaged_locally
from algorithms.ratio import per_token, per_token_old
from algorithms.rejection import token_band
from algorithms.rollout import Batch
from algorithms.sao import sao
from algorithms.trust import double_sided_mask, importance_weighted, inside, score
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import policy_near, random_batch
from tests.simulator.lab.worlds import learner, sampled_by


def lengths(*tokens: int) -> Tensor:
    return torch.arange(max(tokens)) < torch.tensor(tokens)[:, None]


def mean_of(losses: list[float], mask: Tensor, how: Aggregate) -> float:
    """Every token of row i loses losses[i]."""
    terms = torch.tensor(losses, dtype=T64)[:, None].expand(mask.shape)
    return how.reduce(terms, mask, how.count(mask)).item()


@pytest.mark.parametrize(
    ("how", "value", "weights"),
    [(token_mean, 0.2, (0.1, 0.1)), (sequence_mean, 0.5, (0.25, 0.0625)), (constant(10), 0.1, (0.05, 0.05))],
)
def test_the_choice_of_mean_is_a_choice_of_weights(how: Aggregate, value: float, weights):
    """A27: two tokens of loss 1 beside eight of loss 0."""
    mask = lengths(2, 8)
    assert mean_of([1.0, 0.0], mask, how) == pytest.approx(value)
    for row, weight in enumerate(weights):
        one = [float(row == 0), float(row == 1)]
        assert mean_of(one, mask, how) / (2, 8)[row] == pytest.approx(weight)


@pytest.mark.parametrize(("tokens", "wrong", "right"), [((2, 8), 0.5, 0.2), ((2, 10, 10, 10), 0.25, 0.0625)])
def test_micro_batches_share_the_batchs_token_count(tokens, wrong: float, right: float):
    """A29: 2 tokens of loss 1, then 8 (or 30) of loss 0: 2/10 and 2/32, with the same gradients."""
    mask = lengths(*tokens)
    losses = torch.tensor([1.0] + [0.0] * (len(tokens) - 1), dtype=T64)[:, None].expand(mask.shape)
    parts = [slice(0, 1), slice(1, len(tokens))]
    leaf = losses.clone().requires_grad_()
    total = sum(token_mean.count(mask[p]) for p in parts)
    shares = [token_mean.reduce(leaf[p], mask[p], total) for p in parts]
    assert sum(s.item() for s in shares) == pytest.approx(right)
    (split,) = torch.autograd.grad(sum(shares), leaf)
    (whole,) = torch.autograd.grad(token_mean.reduce(leaf, mask, token_mean.count(mask)), leaf)
    assert torch.equal(split, whole)
    # What went wrong: each part's own mean, averaged over parts or over rollouts.
    own = [token_mean.reduce(losses[p], mask[p], token_mean.count(mask[p])).item() for p in parts]
    rollouts = [1, 1] if len(tokens) == 2 else [1, 3]
    assert sum(m * n for m, n in zip(own, rollouts, strict=True)) / sum(rollouts) == pytest.approx(wrong)


def accumulated(estimator: Estimator, log_probs: Tensor, b: Batch, window: list[slice]) -> Tensor:
    """Gradient of one optimizer step over these micro-batches, divided by what the window holds."""
    leaf = log_probs.clone().requires_grad_()
    advantages = estimator.advantage(b)
    total = torch.stack([estimator.total(b.rows(part)) for part in window]).sum()
    for part in window:
        estimator.loss(leaf[part], b.rows(part), advantages=advantages[part], total=total).backward()
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize(("generated", "per_step"), [(4, 4), (4, 2), (8, 2), (2, 8)])
def test_the_divisor_covers_the_optimizer_step_and_nothing_else(generated: int, per_step: int):
    """A30: a step over its window has the gradient of that window, in however many pieces, whatever was
    generated at once; neither g/4 nor g/2 nor 4 g."""
    estimator = grpo_dis(aggregate=token_mean)
    b = random_batch(2)
    b = b.rows(torch.arange(max(generated, per_step)) % 7)  # one rollout a micro-batch
    log_probs = policy_near(b, 0.3)
    for start in range(0, len(log_probs), per_step):
        window = [slice(i, i + 1) for i in range(start, min(start + per_step, len(log_probs)))]
        in_pieces = accumulated(estimator, log_probs, b, window)
        at_once = accumulated(estimator, log_probs, b, [slice(start, start + len(window))])
        assert (at_once != 0).any()
        torch.testing.assert_close(in_pieces, at_once, rtol=1e-10, atol=1e-12)


def test_every_token_masked_is_zero_and_a_masked_row_is_no_rollout():
    """A32: (i) nothing but masked tokens; (ii) four tokens of loss 1 beside a masked row: 4/4."""
    for how in (token_mean, sequence_mean, constant(4)):
        leaf = torch.full((2, 4), math.nan, dtype=T64, requires_grad=True)
        none = torch.zeros(2, 4, dtype=torch.bool)
        loss = how.reduce(leaf, none, how.count(none))
        (gradient,) = torch.autograd.grad(loss, leaf)
        assert loss.item() == 0.0
        assert (gradient == 0).all()
        one_row = torch.tensor([[True] * 4, [False] * 4])
        assert mean_of([1.0, math.nan], one_row, how) == 1.0


def test_an_update_that_rejects_everything_is_counted_and_has_no_nan():
    """A32: SAO, every token fifty nats out of the band: loss and gradient 0, masked share 1."""
    student = learner(sao())
    questions, batch_ = sampled_by(student, rollouts=16, group_size=1)
    right = batch_.rewards.clone()
    # A token without advantage would not count as masked, and equal returns explain no variance.
    right[:, -1] = torch.arange(1.0, 17.0)
    far = dataclasses.replace(batch_, behaviour_log_probs=batch_.behaviour_log_probs - 50.0, rewards=right)
    seen = student.update(questions, far, student.policy.snapshot())
    assert seen["loss"] == seen["gradient_norm"] == seen["refused"] == 0.0
    assert seen["masked_fraction"] == 1.0
    assert all(math.isfinite(value) for value in seen.values())


def test_an_update_without_action_tokens_has_no_nan_but_the_one_that_says_so():
    """A32: explained variance of no returns is undefined, and says NaN by contract."""
    student = learner(sao())
    questions, batch_ = sampled_by(student, rollouts=16, group_size=1)
    empty = dataclasses.replace(batch_, action_mask=torch.zeros_like(batch_.action_mask))
    seen = student.update(questions, empty, student.policy.snapshot())
    assert seen["loss"] == seen["gradient_norm"] == seen["refused"] == 0.0
    assert [name for name, value in seen.items() if math.isnan(value)] == ["explained_variance"]


LOG_RATIO = [0.1, -1.5, 0.8, -10.0, 0.3]


@pytest.mark.parametrize(("kept_only", "wanted"), [(False, 0.491006), (True, 1.227515)])
def test_whether_rejected_tokens_stay_in_the_divisor_is_an_option(kept_only: bool, wanted: float):
    """A33: band [.5, 2], a token's loss its ratio; kept sum 2.45503 over five tokens or over two."""
    b = batch(
        [[1] * 5],
        behaviour_log_probs=rows([-1.0 - x for x in LOG_RATIO]),
        old_log_probs=rows([-1.0] * 5),
    )
    now = rows([-1.0] * 5)
    by_region = Estimator(
        advantage=unweighted,
        log_ratio=per_token,
        trust=double_sided_mask(0.5, 1.0),
        aggregate=token_mean,
        counted=inside(0.5, 1.0) if kept_only else None,
    )
    by_correction = Estimator(
        advantage=unweighted,
        log_ratio=per_token_old,
        trust=score,
        aggregate=token_mean,
        correction=token_band(floor=0.5, ceiling=2.0),
        kept_only=kept_only,
    )
    for estimator in (by_region, by_correction):
        loss = estimator.loss(now, b, advantages=unweighted(b), total=estimator.total(b, now))
        assert loss.item() == pytest.approx(wanted, abs=5e-7)


def test_a_geometric_ratio_is_averaged_over_its_rollout():
    """A18: log-ratios [.1, .3], A = 1: -.6107 a token in both forms; a sum over tokens doubles it."""
    b = batch([[1, 1]], behaviour_log_probs=rows([-1.1, -1.3]))
    for form in (averaged(per_token), averaged_locally(per_token)):
        for how, wanted in ((sequence_mean, -0.6107), (constant(1), -1.2214)):
            estimator = Estimator(
                advantage=unweighted, log_ratio=form, trust=importance_weighted, aggregate=how
            )
            leaf = rows([-1.0, -1.0]).requires_grad_()
            loss = estimator.loss(leaf, b, advantages=unweighted(b), total=torch.tensor(1))
            (gradient,) = torch.autograd.grad(loss, leaf)
            assert gradient[0].tolist() == pytest.approx([wanted] * 2, abs=5e-5)


def test_what_fills_a_masked_token_stays_out_of_a_mean():
    """A26: ratios [1, 1] and a masked token with 0 on one side, 1 on the other: mean 1, not .789."""
    b = batch([[1, 1, 0]], behaviour_log_probs=rows([-1.0, -1.0, 1.0]))
    log_ratio = per_token(rows([-1.0, -1.0, 0.0]), b)
    total = token_mean.count(b.action_mask)
    assert token_mean.reduce(log_ratio.exp(), b.action_mask, total).item() == 1.0
    assert (1 + 1 + math.exp(-1)) / 3 == pytest.approx(0.789, abs=5e-4)
