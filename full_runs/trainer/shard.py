"""How do weights lie on many ranks, in which precision, and how do they come there?

FSDP2: each block's weights are gathered when the block runs, and the rest (embeddings, last norm, head) when
the module does. Tied embeddings are one parameter of that rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from full_runs.trainer.model import CausalCritic, CausalPolicy
from full_runs.trainer.ranks import Ranks

M = TypeVar("M", CausalPolicy, CausalCritic)

Precision = Callable[[], MixedPrecisionPolicy]


def single_precision() -> MixedPrecisionPolicy:
    """Everything in float32."""
    return MixedPrecisionPolicy(cast_forward_inputs=False)


def half_precision() -> MixedPrecisionPolicy:
    """bfloat16 in the passes; weights, gradients and optimizer stay float32."""
    return MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
    )


def sharded(outline: M, source: nn.Module | None, ranks: Ranks, precision: Precision) -> M:
    """The module with its weights spread over all ranks (collective).

    No rank but the first ever holds the whole: weights come from there one parameter at a time.

    Args:
        outline: the module on the meta device; it is filled and returned. Parameters that are not to train
            are marked already.
        source: the same module with its numbers, on rank 0; None on the others.
    """
    for block in outline.blocks():
        fully_shard(block, mesh=ranks.mesh, mp_policy=precision())
    fully_shard(outline, mesh=ranks.mesh, mp_policy=precision())
    _allocate(outline, ranks.device)
    given: dict[str, Tensor] = {}
    if source is not None:
        given = {**dict(source.named_parameters()), **dict(source.named_buffers())}
    with torch.no_grad():
        for name, parameter in outline.named_parameters():
            assert isinstance(parameter, DTensor)
            whole = _from_first(given.get(name), parameter, ranks)
            # From this rank's own copy: nothing more is sent.
            mine = distribute_tensor(whole, ranks.mesh, parameter.placements, src_data_rank=None)
            parameter.to_local().copy_(mine.to_local())
        for name, buffer in outline.named_buffers():
            buffer.copy_(_from_first(given.get(name), buffer, ranks))
    return outline


def _from_first(given: Tensor | None, like: Tensor, ranks: Ranks) -> Tensor:
    """What rank 0 was given, on every rank."""
    whole = torch.empty(like.shape, dtype=like.dtype, device=ranks.device)
    if ranks.rank == 0:
        assert given is not None
        whole.copy_(given)
    if ranks.count > 1:
        dist.broadcast(whole, src=0)
    return whole


def _allocate(module: nn.Module, device: torch.device) -> None:
    """Memory for this rank's parts. `to_empty` unties what was tied, so it is tied again."""
    places = [
        (id(parameter), owner, name)
        for owner in module.modules()
        for name, parameter in owner.named_parameters(recurse=False)
    ]
    module.to_empty(device=device)
    first: dict[int, nn.Parameter] = {}
    for tied, owner, name in places:
        setattr(owner, name, first.setdefault(tied, getattr(owner, name)))
