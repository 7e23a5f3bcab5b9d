"""How do sharded weights leave a trainer, as an engine loads them, without the whole model in one place?

Gathering is collective: every rank walks through the parameters in one order, and each is whole only until
the next. Rank 0 sends them one by one, or writes them down in files of bounded size, in the layout of Hugging
Face. So no rank needs more than a whole tensor and, while that is gathered, its own part of it in the
precision that is sent; rank 0, when it writes, what the open file will hold too. That is no more than the
largest group of layers that FSDP gathers in a pass, as a test measures on two ranks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from full_runs.trainer.model import CausalPolicy
from full_runs.trainer.ranks import Ranks
from full_runs.wire.outline import Outline

FILE_BYTES: Final = 2**27
"""*Choice*: less than a group of layers from four billion parameters on, and few files all the same."""


def resharded(module: nn.Module) -> nn.Module:
    """The same module, its parameters this rank's parts again.

    After a pass without gradient FSDP2 leaves the last group whole: its parameters would not be those that
    the optimizer moves.
    """
    for each in module.modules():
        if isinstance(each, FSDPModule):
            each.reshard()
    return module


def whole_weights(policy: CausalPolicy, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Every weight by its name in transformers, whole, one at a time (collective, to the end).

    Tied weights come once, under the first of their names.

    Args:
        dtype: each rank rounds its parts, so that no more than that is gathered.
    """
    resharded(policy)
    for name, data in _parts(policy.model):
        part = data.to(dtype)
        # Not named here: nothing but its reader keeps it.
        yield name, part.full_tensor() if isinstance(part, DTensor) else part


def published_weights(policy: CausalPolicy, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """The same by their published names, where transformers holds several weights as one (collective)."""
    for name, whole in whole_weights(policy, dtype):
        parts = _as_published(policy.model, name, whole)
        del whole
        while parts:
            published = next(iter(parts))
            yield published, parts.pop(published).contiguous()


def outlines(policy: CausalPolicy, dtype: torch.dtype) -> list[Outline]:
    """What `published_weights` yields, without gathering anything."""
    said = str(dtype).removeprefix("torch.")
    return [
        Outline(published, said, tuple(tensor.shape))
        for name, data in _parts(policy.model)
        for published, tensor in _as_published(
            policy.model, name, torch.empty(data.shape, dtype=dtype, device="meta")
        ).items()
    ]


def _parts(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """This rank's, of all that is saved."""
    for name, parameter in model.named_parameters():
        yield name, parameter.detach()
    transient = {
        f"{owner}.{name}".lstrip(".")
        for owner, each in model.named_modules()
        for name in each._non_persistent_buffers_set
    }
    for name, buffer in model.named_buffers():
        if name not in transient:
            yield name, buffer.detach()


def save_weights(
    policy: CausalPolicy,
    folder: Path,
    ranks: Ranks,
    *,
    dtype: torch.dtype,
    file_bytes: int = FILE_BYTES,
) -> None:
    """Write config.json and safetensors; the folder appears whole, in place of an older one (collective).

    Args:
        dtype: of what is written, as the engine computes.
        file_bytes: a file is closed before it would hold more; a larger weight has a file of its own, written
            before the next is gathered.
    """
    part = folder.with_name(f".{folder.name}.part")
    writer = _Writer(part, file_bytes) if ranks.rank == 0 else None
    for name, tensor in published_weights(policy, dtype):
        if writer is not None:
            writer.add(name, tensor)
        del tensor
    if writer is not None:
        writer.finish()
        config = type(policy.model.config).from_dict({**policy.model.config.to_dict(), "dtype": dtype})
        config.save_pretrained(part)
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
    ranks.wait()


def _as_published(model: Any, name: str, tensor: Tensor) -> dict[str, Tensor]:
    from transformers.core_model_loading import revert_weight_conversion

    published: dict[str, Tensor] = revert_weight_conversion(model, {name: tensor})
    return published


class _Writer:
    """Collects weights and writes a file whenever there are enough."""

    def __init__(self, folder: Path, file_bytes: int) -> None:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        self._folder = folder
        self._file_bytes = file_bytes
        self._open: dict[str, Tensor] = {}
        self._size = self._bytes = 0
        self._files: list[tuple[str, list[str]]] = []

    def add(self, name: str, tensor: Tensor) -> None:
        size = tensor.nbytes
        if self._open and self._size + size > self._file_bytes:
            self._close()
        # A view would keep alive what it is a view of. (A parameter itself is written before it moves.)
        is_view = tensor.untyped_storage().nbytes() > size
        self._open[name] = tensor.to("cpu", copy=is_view)
        self._size += size
        self._bytes += size
        if self._size >= self._file_bytes:
            self._close()

    def _close(self) -> None:
        from safetensors.torch import save_file

        file = f"part-{len(self._files)}"
        save_file(self._open, self._folder / file, metadata={"format": "pt"})
        self._files.append((file, list(self._open)))
        self._open, self._size = {}, 0

    def finish(self) -> None:
        """Close the last file and give all of them their names, now that their number is known."""
        if self._open or not self._files:
            self._close()
        count = len(self._files)
        places: dict[str, str] = {}
        for number, (file, names) in enumerate(self._files, start=1):
            final = "model.safetensors" if count == 1 else f"model-{number:05d}-of-{count:05d}.safetensors"
            (self._folder / file).rename(self._folder / final)
            places |= dict.fromkeys(names, final)
        if count > 1:
            index = {"metadata": {"total_size": self._bytes}, "weight_map": places}
            (self._folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))
