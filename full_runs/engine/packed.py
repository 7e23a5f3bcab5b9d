"""Which numbers does an engine multiply with on a CPU, where it keeps matrices in a layout of its own?

vLLM multiplies there with packed copies, and throws the matrices themselves away; no function of it unpacks
one. The product with a vector of zeros and one 1 is a column of the matrix, to the last bit: everything else
that is summed up is zero. So products with all of them give the matrix back, a few columns at a time.

What is lost is the sign of a zero, and numbers below the smallest normal one, which some processors take for
zero; neither changes what the engine computes. `settled` makes them zero on both sides.

It costs what a prompt of as many tokens costs as the matrix is wide. Where vLLM found no packed layout for a
processor's kind of numbers it multiplies with the matrix itself, and that is what is looked at.

Where the output embeddings are tied to the input ones, vLLM 0.32 packs them once, at its start, and a reload
leaves that copy as it was; so they are packed again here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import torch
from torch import Tensor

from full_runs.engine.layout import bytes_of

NUMBERS_AT_ONCE: Final = 2**23
"""Of a matrix's columns and of the vectors that give them: 32 MB in single precision."""


def packed(model: Any) -> Iterator[tuple[str, str, Any]]:
    """(its parameter's name, its own name, module) of modules that multiply with a packed copy."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for name, module in model.named_modules():
        if callable(getattr(module, "cpu_linear", None)) and _has_a_copy(module):
            yield names.get(id(module.weight), f"{name}.weight"), name, module


@torch.no_grad()
def _has_a_copy(module: Any) -> bool:
    """Does it multiply with something else than the matrix that it is given?"""
    weight = module.weight
    if not weight.numel() or weight.is_meta:  # packed away, or half-way through a push that failed
        return True
    first = torch.zeros(1, weight.shape[1], dtype=weight.dtype)
    first[0, 0] = 1
    other = weight.new_full((1, 1), 3.0).expand(weight.shape)
    return not bool((module.cpu_linear(first, other, None) == 3.0).all())


def pack_again(model: Any) -> None:
    """Pack what still has its weight beside the packed copy: the weight may be shared, and changed unseen."""
    for _, _, module in packed(model):
        if module.weight.numel():
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(module, remove_weight=False)


def settled(numbers: Tensor) -> Tensor:
    """The same numbers; zeros and what is smaller than normal numbers are all +0."""
    return torch.where(numbers.abs() < torch.finfo(numbers.dtype).tiny, torch.zeros_like(numbers), numbers)


@torch.no_grad()
def columns_of(module: Any, rows: int, width: int) -> Iterator[Tensor]:
    """Columns of a packed matrix of about so many rows, a few at a time, each as a row."""
    at_once = columns_at_once(rows, width)
    for start in range(0, width, at_once):
        count = min(at_once, width - start)
        ones = torch.zeros(count, width, dtype=module.weight.dtype)
        ones[torch.arange(count), torch.arange(start, start + count)] = 1
        yield module.cpu_linear(ones, module.weight, None)


def columns_at_once(rows: int, width: int) -> int:
    """So many that no more than `NUMBERS_AT_ONCE` are made."""
    return max(NUMBERS_AT_ONCE // (rows + width), 1)


def digest_of_columns(matrix: Tensor) -> str:
    """SHA-256 of its settled numbers, column by column, a few columns in memory at a time."""
    at_once = columns_at_once(*matrix.shape)
    sha = sha256()
    for start in range(0, matrix.shape[1], at_once):
        sha.update(bytes_of(settled(matrix[:, start : start + at_once].T)))
    return sha.hexdigest()


def digests_of_columns(columns: Iterator[Tensor], rows: Sequence[int]) -> tuple[list[str], bool]:
    """The same of matrices that lie one under the other, and whether what is below them is zero.

    Args:
        columns: of all of them together.
        rows: of each.
    """
    shas = [sha256() for _ in rows]
    below = torch.zeros(())
    for some in columns:
        start = 0
        for sha, count in zip(shas, rows, strict=True):
            sha.update(bytes_of(settled(some[:, start : start + count])))
            start += count
        below = torch.maximum(below, some[:, start:].abs().float().sum())
    return [sha.hexdigest() for sha in shas], bool(below == 0)
