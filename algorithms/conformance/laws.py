"""Which laws must every estimator obey, whatever its four choices?

A law is a function of a subject, a batch and the log-probs of the weights being trained. It returns
nothing, or raises `LawBroken` with the numbers. A law holds or not on any batch; `check` looks for the
batch on which it does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.conformance.disturb import cast, fill_unread, on_policy, padded, poisoned, widened
from algorithms.conformance.subject import Subject
from algorithms.estimator import Estimator
from algorithms.rollout import Batch

Law: TypeAlias = Callable[[Subject, Batch, Float[Tensor, "B T"]], None]

_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Double precision, ten tokens, ratios up to e^4: rounding stays two digits below."""
_JUNK = 7.0


class LawBroken(AssertionError):  # noqa: N818 - a verdict more than an error
    """What a law expected, and what it got, of which quantity."""

    def __init__(self, what: str, expected: Tensor | str, got: Tensor | str) -> None:
        self.what, self.expected, self.got = what, _plain(expected), _plain(got)
        super().__init__(f"{what}: expected {self.expected}, got {self.got}")


def loss_and_gradient(
    subject: Subject, log_probs: Float[Tensor, "B T"], batch: Batch
) -> tuple[Float[Tensor, ""], Float[Tensor, "B T"]]:
    """The four lines of `Estimator`, on the whole batch.

    Raises:
        LawBroken: the loss is no scalar, or `backward` could not be called on it.
    """
    leaf = log_probs.detach().clone().requires_grad_()
    advantages = subject.advantage(batch)
    subject = subject.fixed(leaf, batch, advantages)
    total = subject.total(batch, leaf)
    loss = subject.loss(leaf, batch, advantages=advantages, total=total)
    return loss.detach(), _gradient(loss, leaf)


def nan_is_inert(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """NaN where the model chose nothing changes neither loss nor gradient."""
    mask = batch.action_mask
    loss, gradient = loss_and_gradient(subject, log_probs.where(mask, 0.0), fill_unread(batch, 0.0))
    spoiled = log_probs.where(mask, torch.nan)
    again, spoiled_gradient = loss_and_gradient(subject, spoiled, poisoned(batch))
    _same("loss with NaN off the action tokens", loss, again)
    _same("gradient with NaN off the action tokens", gradient.where(mask, 0), spoiled_gradient.where(mask, 0))
    # A NaN gradient of padding reaches every weight all the same.
    if spoiled_gradient.isnan().any():
        raise LawBroken("gradient with NaN off the action tokens", gradient, spoiled_gradient)


def masked_tokens_have_no_gradient(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """The gradient is exactly zero where the model chose nothing."""
    _, gradient = loss_and_gradient(subject, log_probs, batch)
    if (gradient[~batch.action_mask] != 0).any():
        raise LawBroken("gradient off the action tokens", gradient.where(batch.action_mask, 0), gradient)


def padding_is_inert(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """More padding, and other numbers in it, change neither loss nor gradient."""
    loss, gradient = loss_and_gradient(subject, log_probs.where(batch.action_mask, 0), fill_unread(batch, 0))
    wide_log_probs = widened(log_probs.where(batch.action_mask, -_JUNK), 2, -_JUNK)
    again, wide = loss_and_gradient(subject, wide_log_probs, padded(batch, 2, _JUNK))
    _same("loss with two more columns of padding", loss, again)
    kept = wide[:, : gradient.shape[1]].where(batch.action_mask, 0)
    _same("gradient with two more columns of padding", gradient.where(batch.action_mask, 0), kept)


def all_masked_is_zero(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """Without a single action token the loss is zero, with zero gradient, not NaN."""
    empty = dataclasses.replace(batch, action_mask=torch.zeros_like(batch.action_mask))
    loss, gradient = loss_and_gradient(subject, log_probs, empty)
    _same("loss without action tokens", torch.zeros_like(loss), loss)
    _same("gradient without action tokens", torch.zeros_like(gradient), gradient)


def row_order_is_irrelevant(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """Rollouts in another order give the same loss, and each the same gradient."""
    rows = torch.arange(len(log_probs))
    loss, gradient = loss_and_gradient(subject, log_probs, batch)
    for name, order in (("backwards", rows.flip(0)), ("with the first rollout last", rows.roll(-1))):
        moved, moved_gradient = loss_and_gradient(subject, log_probs[order], batch.rows(order))
        _same(f"loss of the rollouts {name}", loss, moved)
        _same(f"gradient of the rollouts {name}", gradient, moved_gradient[order.argsort()])


def shards_add_up(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """Losses and gradients of shards sum to those of the whole batch, wherever it is split."""
    rows = len(log_probs)
    whole, gradient = loss_and_gradient(subject, log_probs, batch)
    advantages = subject.advantage(batch)
    subject = subject.fixed(log_probs, batch, advantages)
    splits = [[slice(0, cut), slice(cut, rows)] for cut in range(1, rows)]
    for split in [*splits, [slice(row, row + 1) for row in range(rows)]]:
        # Ranks add their counts up; so may micro-batches.
        counts = [subject.total(batch.rows(part), log_probs[part]) for part in split]
        total = torch.stack([torch.as_tensor(count) for count in counts]).sum()
        leaf = log_probs.detach().clone().requires_grad_()
        losses = [
            subject.loss(leaf[part], batch.rows(part), advantages=advantages[part], total=total)
            for part in split
        ]
        summed = torch.stack(losses).sum()
        sizes = " + ".join(str(part.stop - part.start) for part in split)
        _same(f"loss summed over shards of {sizes} rollouts", whole, summed.detach())
        _same(f"gradient summed over shards of {sizes} rollouts", gradient, _gradient(summed, leaf))


def on_policy_is_reinforce(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    r"""When no policy has moved, the gradient is A grad log pi, weighted by what only the mask decides.

    .. math:: \partial L / \partial \log\pi_t = -w_t A_t, \qquad w_t > 0

    w is measured, not prescribed: it is the gradient with every advantage one. Regularisers are left
    out: they have a gradient of their own.
    """
    if isinstance(subject, Estimator):
        subject = dataclasses.replace(subject, regularisers=())
    mask = batch.action_mask
    batch = on_policy(batch, log_probs)
    advantages = subject.advantage(batch)
    gradient = _gradient_at(subject, batch, log_probs, advantages)
    weights = -_gradient_at(subject, batch, log_probs, torch.ones_like(advantages))
    flat = torch.full_like(log_probs, -2.0)
    again = -_gradient_at(subject, on_policy(batch, flat), flat, torch.ones_like(advantages))
    if not (weights[mask] > 0).all():
        raise LawBroken("weights of the tokens, on-policy", "positive numbers", weights.where(mask, 0))
    _same("weights of the tokens under another policy", weights.where(mask, 0), again.where(mask, 0))
    wanted = (-weights * advantages).where(mask, 0)
    _same("on-policy gradient", wanted, gradient.where(mask, 0))


def extreme_ratios_stay_finite(subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"]) -> None:
    """In single precision loss and gradient stay finite, however far the policy moved."""
    single = cast(batch, torch.float32)
    loss, gradient = loss_and_gradient(subject, log_probs.float(), single)
    if not loss.isfinite():
        raise LawBroken("loss in single precision", "a finite number", loss)
    if not gradient.isfinite().all():
        raise LawBroken("gradient in single precision", "finite numbers", gradient)


LAWS: Final[tuple[Law, ...]] = (
    nan_is_inert,
    masked_tokens_have_no_gradient,
    padding_is_inert,
    all_masked_is_zero,
    row_order_is_irrelevant,
    shards_add_up,
    on_policy_is_reinforce,
    extreme_ratios_stay_finite,
)


def _gradient_at(
    subject: Subject, batch: Batch, log_probs: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    leaf = log_probs.detach().clone().requires_grad_()
    subject = subject.fixed(leaf, batch, advantages)
    total = subject.total(batch, leaf)
    return _gradient(subject.loss(leaf, batch, advantages=advantages, total=total), leaf)


def _gradient(loss: Tensor, leaf: Tensor) -> Tensor:
    if loss.dim() != 0:
        raise LawBroken("shape of the loss", "()", str(tuple(loss.shape)))
    if not loss.requires_grad:
        raise LawBroken("loss", "a function of log_probs", "no gradient: backward() would fail")
    (gradient,) = torch.autograd.grad(loss, leaf, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


def _same(what: str, expected: Tensor, got: Tensor) -> None:
    # What is not a number on both sides is another law's business.
    if not torch.allclose(got, expected, rtol=_RELATIVE, atol=_ABSOLUTE, equal_nan=True):
        raise LawBroken(what, expected, got)


def _plain(value: Tensor | str) -> object:
    return value if isinstance(value, str) else value.tolist()
