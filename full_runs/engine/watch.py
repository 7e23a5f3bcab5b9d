"""What is an engine's model given, and does it multiply with it afterwards?

Seen in the worker as it passes: a digest of each tensor, and of each matrix its products with a few fixed
random vectors. On a CPU, vLLM multiplies with packed copies of its matrices, of which no checksum of
parameters says anything. Their products are compared with those, so the weights themselves are not needed
again. Where the output embeddings are tied to the input ones, vLLM 0.32 packs them once, at its start, and a
reload leaves that copy as it was; so they are packed again here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

import torch
from torch import Tensor

from full_runs.engine.layout import as_engine, digest, part

TOLERANCE: Final = {torch.float32: 1e-4, torch.bfloat16: 1e-2}
"""Of a product, relative to the largest: single precision sums in another order, bfloat16 keeps 8 bits."""
VECTORS: Final = 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Of a matrix, as an engine keeps it."""

    width: int
    """Of the matrix."""
    rows: Tensor
    """In single precision; shape (rows of the matrix, `VECTORS`)."""


@final
class Watch:
    """What has passed so far.

    Args:
        dtype: that the model computes in.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.digests: dict[str, str] = {}
        """By the checkpoint's names."""
        self._dtype = dtype
        self._rows: dict[str, Tensor] = {}
        self._widths: dict[str, int] = {}

    def passing(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same tensors, seen."""
        for name, tensor in weights:
            self.see(name, tensor)
            yield name, tensor

    def see(self, name: str, tensor: Tensor) -> None:
        """The next one."""
        self.digests[name] = digest(tensor)
        # Matrices in a GPU are packed nowhere.
        if tensor.dim() == 2 and tensor.device.type == "cpu":
            own = part(name)
            self._rows[name] = multiplied(tensor.to(self._dtype))
            self._widths[name if own is None else own.whole] = tensor.shape[1]

    def products(self) -> dict[str, Product]:
        """By the names of an engine of one rank."""
        whole = as_engine(self._rows)
        return {name: Product(width=self._widths[name], rows=rows) for name, rows in whole.items()}


def multiplied(matrix: Tensor) -> Tensor:
    """Its rows' products with the fixed vectors, in single precision; shape (rows, `VECTORS`)."""
    return matrix.float() @ vectors(matrix.shape[1], matrix.dtype).float().T


@cache
def vectors(width: int, dtype: torch.dtype) -> Tensor:
    """Fixed random ones; shape (`VECTORS`, width)."""
    draws = torch.Generator().manual_seed(0)
    return torch.randn(VECTORS, width, generator=draws).to(dtype)


def packed(model: Any) -> Iterator[tuple[str, Any]]:
    """Modules that multiply with a packed copy of their weight."""
    for name, module in model.named_modules():
        if callable(getattr(module, "cpu_linear", None)):
            yield name, module


def pack_again(model: Any) -> None:
    """Pack what still has its weight beside the packed copy: the weight may be shared, and changed unseen."""
    for _, module in packed(model):
        if module.weight.numel():
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(module, remove_weight=False)


def differing_products(model: Any, expected: Mapping[str, Product]) -> list[str]:
    """Names of packed matrices whose products are not the expected ones, in order.

    Args:
        expected: by the engine's names; a head that is not among them is tied to the input embeddings.
    """
    tied = next((each for name, each in expected.items() if name.endswith("embed_tokens.weight")), None)
    wrong = []
    for name, module in packed(model):
        wanted = expected.get(f"{name}.weight", tied if name.endswith("lm_head") else None)
        if wanted is None or not _multiplies_as(module, wanted):
            wrong.append(name)
    return sorted(wrong)


@torch.no_grad()
def _multiplies_as(module: Any, wanted: Product) -> bool:
    dtype = module.weight.dtype
    found = module.cpu_linear(vectors(wanted.width, dtype), module.weight, None).float().T
    return found.shape == wanted.rows.shape and bool(
        (found - wanted.rows).abs().max() <= TOLERANCE[dtype] * wanted.rows.abs().max()
    )
