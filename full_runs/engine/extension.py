"""What an engine's workers do for us, inside the engine's process: take weights and say what they took.

Given to a server as `--worker-extension-cls full_runs.engine.extension.TakesWeights`. An engine may pack its
matrices into a layout of its own (on a CPU it does), so its parameters cannot always be compared with a
checkpoint's. What can be: each tensor as it passes from the file into the engine's loader, on every rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


class TakesWeights:
    """Mixed into vLLM's worker class, which has `reload_weights`."""

    reload_weights: Any

    def take_weights(self, folder: str) -> dict[str, str]:
        """Replace all weights by those of a folder's safetensors files; the digest of each, by name."""
        taken: dict[str, str] = {}

        def passing() -> Iterator[tuple[str, Tensor]]:
            for name, tensor in tensors_of(Path(folder)):
                taken[name] = digest(tensor)
                yield name, tensor

        self.reload_weights(weights_iterator=passing())
        return taken


def tensors_of(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a folder's safetensors files, one at a time."""
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - not a mapping
                yield name, opened.get_tensor(name)


def digest(tensor: Tensor) -> str:
    """SHA-256 of its bytes."""
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()
