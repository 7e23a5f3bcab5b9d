"""Which changes to a batch must change nothing?"""

from __future__ import annotations

import dataclasses
import math

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.rollout import Batch


def fill_unread(batch: Batch, value: float) -> Batch:
    """Every entry that no estimator may read set to `value`; in integer fields, to -1.

    Off the action tokens that is every field, and of complete rollouts the bootstrap value: what
    follows a rollout that ended by itself is nothing.
    """

    def fill(name: str, tensor: Tensor) -> Tensor:
        if name == "action_mask" or (tensor.dim() == 1 and name != "bootstrap_values"):
            return tensor
        read = batch.truncated if tensor.dim() == 1 else batch.action_mask
        return tensor.where(read, value if tensor.is_floating_point() else -1)

    return dataclasses.replace(
        batch, **{name: fill(name, tensor) for name, tensor in _present(batch).items()}
    )


def poisoned(batch: Batch) -> Batch:
    """NaN and nonsense wherever nothing should look."""
    return fill_unread(batch, math.nan)


def padded(batch: Batch, tokens: int, value: float = math.nan) -> Batch:
    """The same rollouts with `tokens` more columns of padding, filled as `fill_unread` fills."""
    return fill_unread(
        dataclasses.replace(
            batch, **{name: widened(tensor, tokens) for name, tensor in _present(batch).items()}
        ),
        value,
    )


def widened(tensor: Tensor, tokens: int, value: float = 0.0) -> Tensor:
    """`tokens` more columns; a tensor with one entry a rollout stays as it is."""
    return tensor if tensor.dim() == 1 else torch.nn.functional.pad(tensor, (0, tokens), value=value)


def on_policy(batch: Batch, log_probs: Float[Tensor, "B T"]) -> Batch:
    """The batch as if the weights being trained had sampled it: every other policy is this one."""
    return dataclasses.replace(
        batch, **{name: log_probs for name, _ in _present(batch).items() if name.endswith("log_probs")}
    )


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """Floating fields in another precision."""
    present = _present(batch).items()
    floats = {name: tensor.to(dtype) for name, tensor in present if tensor.is_floating_point()}
    return dataclasses.replace(batch, **floats)


def _present(batch: Batch) -> dict[str, Tensor]:
    named = ((field.name, getattr(batch, field.name)) for field in dataclasses.fields(batch))
    return {name: tensor for name, tensor in named if tensor is not None}
