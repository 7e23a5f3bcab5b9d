r"""Gradient Alignment Control: does this gradient only repeat the previous one?

Fresh gradients of consecutive updates are nearly orthogonal. Stale ones point the same way, update after
update, and add up to an overshoot. The control looks at the cosine and shortens what is parallel.

A gradient is a sequence of tensors, as many as there are parameters; one flat vector is a sequence of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

Gradient: TypeAlias = Sequence[Float[Tensor, "*_"]]

Attenuation: TypeAlias = Callable[[float, float], float]
"""(cosine, the threshold that it exceeds) -> share of the parallel part that is kept, in [0, 1]."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """One gradient after the control, and what the next call needs."""

    gradient: tuple[Float[Tensor, "*_"], ...]
    """What the optimizer gets; zeros if `skipped`."""
    previous: tuple[Float[Tensor, "*_"], ...]
    """Pass it to the next call. *Choice*: a copy of the gradient as it came, before the control."""
    cosine: float
    """Between the gradient as it came and the previous one; NaN where one of them is absent or zero."""
    kept: float
    """Share of the parallel part that was kept: 1.0 if nothing was done, 0.0 if `skipped`."""
    skipped: bool
    """The caller must not step at all: zeros would still move an optimizer that has momentum."""


def inner_products(gradient: Gradient, previous: Gradient | None) -> Float64[Tensor, " 3"]:
    r"""What the cosine is made of: :math:`g_t \cdot g_t,\ g_t \cdot g_{t-1},\ g_{t-1} \cdot g_{t-1}`.

    They add up over shards and ranks, as the parameters do.

    Args:
        previous: None at the first update, which gives zeros for its products.

    Raises:
        ValueError: the two differ in number or shape of their tensors.
    """
    earlier = gradient if previous is None else previous
    shapes = [[tuple(tensor.shape) for tensor in each] for each in (gradient, earlier)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"gradient has shapes {shapes[0]}, the previous one {shapes[1]}")
    products = torch.zeros(3, dtype=torch.float64)
    for now, before in zip(gradient, earlier, strict=True):
        a, b = now.detach().double(), before.detach().double()
        products = products.to(a.device) + torch.stack([a.square().sum(), (a * b).sum(), b.square().sum()])
    return products if previous is not None else products * products.new_tensor([1.0, 0.0, 0.0])


def down_to_threshold(cosine: float, threshold: float) -> float:
    r"""Keep as much as leaves a cosine equal to the threshold.

    .. math:: \frac{\tau}{c} \sqrt{\frac{1 - c^2}{1 - \tau^2}}

    One at the threshold, so that nothing jumps there; zero for a gradient without an orthogonal part.
    """
    # So near one, 1 - c^2 is rounding, and so is the orthogonal part.
    if cosine > 1 - 1e-12:
        return 0.0
    return threshold / cosine * math.sqrt((1 - cosine**2) / (1 - threshold**2))


def fixed_share(kept: float) -> Attenuation:
    """Keep the same share of the parallel part at every cosine: 0 projects it out, 1 does nothing.

    Raises:
        ValueError: `kept` outside [0, 1].
    """
    if not 0 <= kept <= 1:
        raise ValueError(f"kept must lie in [0, 1], got {kept}")
    return lambda cosine, threshold: kept  # noqa: ARG005


def align(
    gradient: Gradient,
    previous: Gradient | None,
    *,
    products: Float64[Tensor, " 3"],
    attenuate_above: float = 0.1,
    skip_above: float = 1.0,
    attenuation: Attenuation = down_to_threshold,
) -> Controlled:
    r"""Shorten the part of a gradient that is parallel to the previous one, or skip the update.

    .. math:: g'_t = g_t - (1 - k)\, \frac{g_t \cdot g_{t-1}}{\lVert g_{t-1} \rVert^2}\, g_{t-1},
        \qquad c_t = \cos(g_t, g_{t-1})

    with k = 1 for :math:`c_t \le \tau_1`, k from `attenuation` up to :math:`\tau_2`, and no update beyond.
    Opposed gradients are left alone. What is not finite has no cosine and passes as it is.

    Nothing here ends a run of skipped updates: while the weights rest, a gradient with little noise repeats
    itself, at any lag, and learning has stopped for good. Pass None for `previous` after a skip and there
    are never two in a row.

    Args:
        gradient: of this update, before clipping by its norm.
        previous: `Controlled.previous` of the last call, None at the first.
        products: `inner_products` of the two, summed over all shards.
        attenuate_above: *choice*, tau_1, a cosine in [0, 1). The paper's thresholds are not public.
        skip_above: *choice*, tau_2, a cosine no smaller than tau_1. The default of 1 never skips.
        attenuation: *choice*, `down_to_threshold`.

    Raises:
        ValueError: a threshold outside its range.

    References:
        Xu et al., GAC, 2026. https://arxiv.org/abs/2603.01501.
    """
    if not 0 <= attenuate_above < 1:
        raise ValueError(f"attenuate_above must lie in [0, 1), got {attenuate_above}")
    if not skip_above >= attenuate_above:
        raise ValueError(f"skip_above must not be below attenuate_above {attenuate_above}, got {skip_above}")
    similar = cosine(products)
    # Rounding may push a cosine past one, and a threshold of one means never.
    skipped = similar > skip_above and skip_above < 1
    excess = similar > attenuate_above
    kept = 0.0 if skipped else attenuation(similar, attenuate_above) if excess else 1.0
    given = tuple(tensor.detach() for tensor in gradient)
    shaped = given
    if skipped:
        shaped = tuple(torch.zeros_like(tensor) for tensor in given)
    elif kept < 1 and previous is not None:
        removed = float((1 - kept) * products[1] / products[2])
        shaped = tuple(now - removed * before.detach() for now, before in zip(given, previous, strict=True))
    return Controlled(
        gradient=shaped,
        previous=tuple(tensor.clone() for tensor in given),
        cosine=similar,
        kept=kept,
        skipped=skipped,
    )


def cosine(products: Float64[Tensor, " 3"]) -> float:
    """Of two gradients, from their `inner_products`; NaN where one of them is absent, zero or not finite."""
    own, mixed, earlier = products.tolist()
    if not (own > 0 and earlier > 0 and math.isfinite(own) and math.isfinite(earlier)):
        return math.nan
    return float(min(1.0, max(-1.0, mixed / (math.sqrt(own) * math.sqrt(earlier)))))
