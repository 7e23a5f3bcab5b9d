"""In which precision does the arithmetic run? In single at least, whatever the inputs are stored in.

A bfloat16 has eight bits: one step at ten nats is 1/16, a ratio of 1.0645. Once stored so, a log-prob has
lost what a ratio is made of, and no later step brings it back: let engine and trainer hand over float32.
Here a half-precision input is widened once, before the first sum or `exp`, and double stays double. The
gradient goes back through that one cast, so a bfloat16 leaf gets a bfloat16 gradient.
"""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.rollout import Batch


def working(dtype: torch.dtype) -> torch.dtype:
    """The dtype that arithmetic on `dtype` runs in: float32 for half precision, else `dtype` itself."""
    return torch.promote_types(dtype, torch.float32)


def at_least_single(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Half precision as float32; float32 and double as they are, without a copy."""
    return tensor.to(working(tensor.dtype))


def widened(batch: Batch) -> Batch:
    """The batch with its log-probs in single precision at least; itself, if they are."""
    narrow = {
        field.name: at_least_single(tensor)
        for field in dataclasses.fields(batch)
        if field.name.endswith("log_probs")
        and (tensor := getattr(batch, field.name)) is not None
        and tensor.dtype != working(tensor.dtype)
    }
    return dataclasses.replace(batch, **narrow) if narrow else batch
