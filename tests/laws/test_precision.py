"""Half-precision inputs: the arithmetic is that of float32 on the same rounded numbers, and no wider."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from algorithms.conformance.disturb import cast as cast_all
from algorithms.diagnostics import k3, token_ess
from algorithms.likelihood import token_log_probs
from algorithms.precision import at_least_single, widened
from algorithms.ratio import per_sequence_product, per_token
from algorithms.rollout import Batch
from tests.algorithms.make import batch as by_hand
from tests.laws.compositions import COMPOSITIONS, Composition, loss_and_gradient, policy_near, random_batch

every_composition = pytest.mark.parametrize("composition", COMPOSITIONS.values(), ids=list(COMPOSITIONS))
LOG_PROBS = ("behaviour_log_probs", "old_log_probs", "proximal_log_probs", "reference_log_probs")
OTHERS = ("rewards", "baselines", "values", "bootstrap_values")
STORED = (torch.bfloat16, torch.float16)


def single(batch: Batch) -> Batch:
    return cast_all(batch, torch.float32)


def cast(batch: Batch, dtype: torch.dtype, names: tuple[str, ...] = LOG_PROBS) -> Batch:
    present = {name: getattr(batch, name) for name in names if getattr(batch, name) is not None}
    return dataclasses.replace(batch, **{name: tensor.to(dtype) for name, tensor in present.items()})


@every_composition
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_loss_is_the_float32_loss_of_the_same_rounded_numbers(composition: Composition, dtype: torch.dtype):
    estimator, wide = composition.estimator, single(composition.draw(0))
    narrow = cast(wide, dtype, (*LOG_PROBS, *OTHERS))
    log_probs = policy_near(wide, 0.3).to(dtype)
    rounded = cast(narrow, torch.float32, (*LOG_PROBS, *OTHERS))
    loss, gradient = loss_and_gradient(estimator, log_probs, narrow)
    wanted, wanted_gradient = loss_and_gradient(estimator, log_probs.float(), rounded)
    assert loss.dtype == torch.float32
    assert gradient.dtype == dtype
    assert torch.equal(loss, wanted)
    assert torch.equal(gradient, wanted_gradient.to(dtype))


class Dtypes(TorchDispatchMode):
    """Records the dtype of every tensor of at least `numel` entries that an operation returns."""

    def __init__(self, numel: int) -> None:
        super().__init__()
        self.numel, self.seen = numel, set[torch.dtype]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor) and tensor.numel() >= self.numel:
                self.seen.add(tensor.dtype)
        return out


@every_composition
def test_no_token_tensor_of_a_float32_loss_is_double_or_half(composition: Composition):
    estimator, batch = composition.estimator, single(composition.draw(1))
    leaf = policy_near(batch, 0.3).requires_grad_()
    advantages = estimator.advantage(batch)
    estimator = estimator.fixed(leaf, batch, advantages)
    with Dtypes(batch.action_mask.numel()) as watched:
        total = estimator.total(batch, leaf)
        estimator.loss(leaf, batch, advantages=advantages, total=total).backward()
    floating = {dtype for dtype in watched.seen if dtype.is_floating_point}
    assert floating == {torch.float32}


@every_composition
def test_half_precision_rewards_and_values_leave_no_half_precision_advantage(composition: Composition):
    batch = cast(single(composition.draw(2)), torch.bfloat16, OTHERS)
    assert composition.estimator.advantage(batch).dtype == torch.float32


def test_a44_stored_log_probs_have_lost_the_ratio_before_any_arithmetic():
    """-10.03 and -10.00 are one bfloat16: float32 keeps the ratio 1.03045, which nothing can restore."""
    mask = [[1]]
    kept = by_hand(mask, torch.float32, behaviour_log_probs=torch.tensor([[-10.03]]))
    assert per_token(torch.tensor([[-10.0]]), kept).exp().item() == pytest.approx(1.03045, abs=5e-6)
    lost = cast(kept, torch.bfloat16)
    assert per_token(torch.tensor([[-10.0]]).bfloat16(), lost).exp().item() == 1.0
    one_step = torch.tensor([[-9.9375]]).bfloat16()
    assert per_token(one_step, lost).exp().item() == pytest.approx(1.0645, abs=5e-5)


def test_a44_a_sum_of_a_thousand_is_no_sum_in_half_precision():
    hundredths = torch.full((1, 1000), 0.01).bfloat16()
    by_step = torch.zeros((), dtype=torch.bfloat16)
    for x in hundredths[0]:
        by_step += x
    assert by_step.item() == 4.0
    mask = torch.ones(1, 1000, dtype=torch.bool)
    batch = by_hand(mask, torch.float32, behaviour_log_probs=torch.zeros(1, 1000).bfloat16())
    product = per_sequence_product(hundredths, batch)
    assert product.dtype == torch.float32
    assert product[0, 0].item() == pytest.approx(1000 * hundredths[0, 0].item(), rel=1e-6)
    rewarded = by_hand(mask, torch.float32, rewards=hundredths)
    assert rewarded.returns.item() == pytest.approx(10.0098, abs=1e-4)


def test_a44_statistics_of_ratios_near_one():
    """The mean of 4096 ratios 1.001 is 1.001, and 1.0 in bfloat16, whose next number is 1.0078."""
    log_ratio = torch.full((1, 4096), math.log(1.001))
    mask = torch.ones_like(log_ratio, dtype=torch.bool)
    assert log_ratio.exp().bfloat16().mean().item() == 1.0
    assert k3(log_ratio, mask) == pytest.approx(1.001 - 1 - math.log(1.001), rel=1e-4)
    narrow = log_ratio.bfloat16()
    assert k3(narrow, mask) == k3(narrow.float(), mask) > 0
    assert token_ess(narrow, mask) == pytest.approx(1.0, abs=1e-12)


def test_likelihood_of_half_precision_logits_is_that_of_the_same_numbers_in_float32():
    g = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(2, 5, 50, generator=g)).bfloat16().requires_grad_()
    ids = torch.randint(0, 50, (2, 5), generator=g)
    batch = by_hand(torch.ones(2, 5, dtype=torch.bool), torch.bfloat16, token_ids=ids)
    log_probs = token_log_probs(logits, batch)
    assert log_probs.dtype == torch.float32
    wanted = logits.detach().double().log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    torch.testing.assert_close(log_probs.detach().double(), wanted, rtol=0, atol=2e-6)
    log_probs.sum().backward()
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wide_inputs_are_not_copied(dtype: torch.dtype):
    batch = random_batch(3, dtype=dtype)
    assert widened(batch) is batch
    assert at_least_single(batch.rewards) is batch.rewards
