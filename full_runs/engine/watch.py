"""Does an engine's process hold, to the last bit, what its model was given?

Each tensor is seen as it passes: a digest of the whole, which the trainer's is compared with, and a digest of
the slice that this process is to keep, in the numbers that it computes in. Afterwards every parameter is cut
into the tensors that it was made of, and each is compared; where the engine multiplies with a packed copy,
that copy is. No tensor is kept meanwhile.

Experts of a mixture are compared on a CPU alone, once, as they come (`full_runs.engine.experts`): vLLM keeps
them in layouts that depend on the kernel. On a GPU stands what was read of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from full_runs.engine.experts import differing_experts, digests_of_packed, pack_experts
from full_runs.engine.layout import ALONE, EXPERTS, Process, digest, kept, part
from full_runs.engine.packed import (
    columns_of,
    digest_of_columns,
    digests_of_columns,
    pack_again,
    packed,
)


class Kept(NamedTuple):
    """What a process is to keep of a tensor of the checkpoint."""

    shape: tuple[int, ...]
    by_rows: str
    """Digest of its numbers, row by row."""
    by_columns: str | None
    """The same column by column, if the engine packs it."""


class Compared(NamedTuple):
    """What a process holds, beside what it was given."""

    same: int
    """Tensors, packed copies of tied ones beside them."""
    wrong: list[str]
    """Names of tensors that are held otherwise, or not at all; and of what nobody sent."""


@final
class Watch:
    """What has passed so far.

    Args:
        dtype: that the model computes in.
        process: which of the engine's this is.
        packed: parameters of which the engine has packed copies, by its names.
    """

    def __init__(self, dtype: torch.dtype, process: Process = ALONE, packed: Set[str] = frozenset()) -> None:
        self.digests: dict[str, str] = {}
        """Of each whole tensor as it passed, by the checkpoint's names."""
        self.kept: dict[str, Kept] = {}
        """By the checkpoint's names."""
        self.differing_experts: dict[str, bool] = {}
        """By the checkpoint's names, before they were packed."""
        self.packed_experts: dict[str, str] = {}
        """Digest of each as it was packed then."""
        self._dtype = dtype
        self._process = process
        self._packed = packed
        self._places: dict[str, list[str]] = {}

    def passing(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same tensors, seen."""
        for name, tensor in weights:
            self.see(name, tensor)
            yield name, tensor

    def see(self, name: str, tensor: Tensor) -> None:
        """The next one."""
        whole = self.digests[name] = digest(tensor)
        place, own = part(name), kept(name, tensor, self._process).to(self._dtype)
        self.kept[name] = Kept(
            shape=tuple(own.shape),
            by_rows=whole if own is tensor else digest(own),
            by_columns=digest_of_columns(own) if place.whole in self._packed else None,
        )
        self._places[place.whole] = list(place.parts)

    def parts_of(self, parameter: str) -> dict[str, Kept]:
        """What passed and an engine's parameter is made of, in order."""
        return {name: self.kept[name] for name in self._places.get(parameter, []) if name in self.kept}


def compared(model: Any, watch: Watch) -> Compared:
    """Every parameter of a model, and every packed copy, beside what the watch has seen."""
    wrong, looked_at, same = list[str](), set[str](), 0
    for parameter, whose, differing in _held(model):
        if not (parts := watch.parts_of(parameter)):
            wrong.append(f"{parameter} (nobody sent it)")
            continue
        names = differing(list(parts.values()))
        wrong += [f"{name}{whose}" for name, differs in zip(parts, names, strict=True) if differs]
        same += names.count(False)
        looked_at |= parts.keys()
    for name in (watch.kept.keys() | watch.differing_experts.keys()) - looked_at:
        if EXPERTS not in name:
            wrong.append(f"{name} (it has no place)")
        elif watch.differing_experts.get(name, False):
            wrong.append(name)
        else:
            same += name in watch.differing_experts
    held = digests_of_packed(model) if watch.packed_experts else {}
    wrong += [name for name, wanted in watch.packed_experts.items() if held.get(name) != wanted]
    return Compared(same=same, wrong=sorted(wrong))


def all_came(model: Any, watch: Watch) -> None:
    """A model has all its weights: pack what vLLM does not pack again."""
    pack_again(model)
    expected = {name: own.by_rows for name, own in watch.kept.items() if EXPERTS in name}
    watch.differing_experts = differing_experts(model, expected)
    if watch.differing_experts and not any(watch.differing_experts.values()):
        pack_experts(model)
        watch.packed_experts = digests_of_packed(model)


Differing = Callable[[Sequence[Kept]], list[bool]]
"""(tensors that a parameter is made of) -> which of them it holds otherwise."""


def _held(model: Any) -> Iterator[tuple[str, str, Differing]]:
    """(parameter, whose it is if not its own, how to compare it)."""
    for parameter, module_name, module in packed(model):
        own = parameter == f"{module_name}.weight"
        yield parameter, "" if own else f" (as {module_name})", partial(_differing_copy, module)
    for parameter, numbers in model.named_parameters():
        if numbers.numel() and EXPERTS not in parameter:
            yield parameter, "", partial(_differing_rows, numbers)


def _differing_rows(numbers: Tensor, parts: Sequence[Kept]) -> list[bool]:
    rows = [each.shape[0] for each in parts]
    if sum(rows) > len(numbers) or bool(numbers[sum(rows) :].any()):
        return [True] * len(parts)
    ends = accumulate(rows)
    return [
        digest(numbers[end - count : end]) != each.by_rows
        for end, count, each in zip(ends, rows, parts, strict=True)
    ]


def _differing_copy(module: Any, parts: Sequence[Kept]) -> list[bool]:
    rows, width = [each.shape[0] for each in parts], parts[0].shape[1]
    columns = columns_of(module, sum(rows), width)
    try:
        found, below_is_zero = digests_of_columns(columns, rows)
    except RuntimeError:  # it is as wide as no matrix that was sent
        return [True] * len(parts)
    return [not below_is_zero or own != each.by_columns for own, each in zip(found, parts, strict=True)]
