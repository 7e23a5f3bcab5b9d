"""Reported faults of means over tokens, rollouts and micro-batches, each with the numbers that are right."""

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from algorithms.aggregate import Aggregate, constant, sequence_mean, token_mean
from algorithms.estimator import Estimator
from algorithms.grpo import grpo_dis
from algorithms.rollout import Batch
from algorithms.sao import sao
from tests.algorithms.make import T64
from tests.laws.compositions import policy_near, random_batch
from tests.simulator.lab.worlds import learner, sampled_by


def lengths(*tokens: int) -> Tensor:
    return torch.arange(max(tokens)) < torch.tensor(tokens)[:, None]


def mean_of(losses: list[float], mask: Tensor, how: Aggregate) -> float:
    """Every token of row i loses losses[i]."""
    terms = torch.tensor(losses, dtype=T64)[:, None].expand(mask.shape)
    return how.reduce(terms, mask, how.count(mask)).item()


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
    lesson = sampled_by(student, rollouts=16, group_size=1)
    batch_ = lesson.batch
    right = batch_.rewards.clone()
    # A token without advantage would not count as masked, and equal returns explain no variance.
    right[:, -1] = torch.arange(1.0, 17.0)
    far = dataclasses.replace(batch_, behaviour_log_probs=batch_.behaviour_log_probs - 50.0, rewards=right)
    seen = student.update(dataclasses.replace(lesson, batch=far))
    assert seen["loss"] == seen["gradient_norm"] == seen["refused"] == 0.0
    assert seen["masked_fraction"] == 1.0
    # A first gradient has no previous one, and one of zeros no direction.
    assert math.isnan(seen.pop("gradient_cosine"))
    assert all(math.isfinite(value) for value in seen.values())


def test_an_update_without_action_tokens_has_no_nan_but_those_that_say_so():
    """A32: what is an average or a quantile of nothing says NaN by contract; all else is a number."""
    student = learner(sao())
    lesson = sampled_by(student, rollouts=16, group_size=1)
    batch_ = lesson.batch
    empty = dataclasses.replace(batch_, action_mask=torch.zeros_like(batch_.action_mask))
    seen = student.update(dataclasses.replace(lesson, batch=empty))
    assert seen["loss"] == seen["gradient_norm"] == seen["refused"] == 0.0
    assert {name for name, value in seen.items() if math.isnan(value)} == {
        "reward",
        "explained_variance",
        "gradient_cosine",
        *(name for name in seen if name.startswith("log_ratio_p")),
    }


LOG_RATIO = [0.1, -1.5, 0.8, -10.0, 0.3]
