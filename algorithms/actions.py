"""Only the actions, in their order: how does a recursion over what the model chose run on tensors?

Observations and padding are moved behind the actions, the recursion runs over the columns, and its
results go back to their positions.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from algorithms.precision import working
from algorithms.rollout import Batch


def actions_first(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Position of the k-th action of each rollout; the positions of all other tokens follow."""
    # By position, not by count: a stable sort keeps the actions' order.
    return mask.sort(dim=1, descending=True, stable=True).indices


def in_order(
    tensor: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], order: Int[Tensor, "B T"]
) -> Float64[Tensor, "B T"]:
    """The actions' entries, in double precision and without gradient; zeros after the last."""
    return tensor.detach().where(mask, 0.0).double().gather(1, order)


def by_position(
    ordered: Float64[Tensor, "B T"], like: Float[Tensor, "B T"], batch: Batch, order: Int[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """What `in_order` took apart: entries at their positions, zero off the action tokens.

    In the precision of `like`, single at least.
    """
    placed = torch.zeros_like(ordered).scatter(1, order, ordered)
    return placed.to(working(like.dtype)).where(batch.action_mask, 0.0)


def following(
    values: Float64[Tensor, "B T"], batch: Batch, last: Float64[Tensor, "B 1"]
) -> Float64[Tensor, "B T"]:
    """The value one action later: of the last action `last`, after it zero.

    Args:
        values: as `in_order` gives them.
        last: what follows each rollout's last action.
    """
    padded = torch.cat([values, torch.zeros_like(last)], dim=1)
    return padded.scatter(1, batch.action_tokens[:, None], last)[:, 1:]


def final_values(batch: Batch, *, bootstrap_truncated: bool) -> Float64[Tensor, "B 1"]:
    """Value after the last action: the bootstrap of truncated rollouts, zero of the others.

    Raises:
        ValueError: `bootstrap_values` is absent where it is needed.
    """
    if not (bootstrap_truncated and batch.truncated.any()):
        return torch.zeros_like(batch.action_tokens, dtype=torch.float64)[:, None]
    if batch.bootstrap_values is None:
        raise ValueError(
            f"bootstrap_values is None for {int(batch.truncated.sum())} truncated rollouts: "
            "value the state after their last token, or pass bootstrap_truncated=False"
        )
    return batch.bootstrap_values.detach().where(batch.truncated, 0.0).double()[:, None]


def discounted_suffix_sums(
    terms: Float64[Tensor, "B T"], decay: Float64[Tensor, "B T"]
) -> Float64[Tensor, "B T"]:
    r""":math:`S_k = x_k + c_k S_{k+1}` in log2(T) vector steps, each doubling the reach of the sum.

    Args:
        decay: c, in [0, 1]: products of it must not overflow.
    """
    sums, reach, factor = terms, 1, decay
    while reach < terms.shape[1]:
        sums = sums + factor * torch.nn.functional.pad(sums[:, reach:], (0, reach))
        factor = factor * torch.nn.functional.pad(factor[:, reach:], (0, reach))
        reach *= 2
    return sums
