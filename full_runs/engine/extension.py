"""What an engine's workers do for us, inside the engine's process: take weights, and say what they took.

Given to a server as `--worker-extension-cls full_runs.engine.extension.TakesWeights`.

On a CPU, vLLM multiplies with packed copies of its matrices. Where the output embeddings are tied to the
input ones, vLLM 0.32 packs them once, at its start, and a reload leaves that copy as it was: everything but
the head is new, and no checksum of parameters shows it. So they are packed again here, and every packed
matrix is multiplied with a few random vectors and compared with the checkpoint's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from full_runs.engine.layout import as_engine, digest, tensors_of

TOLERANCE: Final = {torch.float32: 1e-4, torch.bfloat16: 1e-2}
"""Of a product, relative to the largest: single precision sums in another order, bfloat16 keeps 8 bits."""


class TakesWeights:
    """Mixed into vLLM's worker class, which has the others."""

    reload_weights: Any
    model_runner: Any
    vllm_config: Any

    def take_weights(self, folder: str) -> dict[str, str]:
        """Replace all weights by those of a folder's safetensors files; the digest of each, by name."""
        taken: dict[str, str] = {}

        def passing() -> Iterator[tuple[str, Tensor]]:
            for name, tensor in tensors_of(Path(folder)):
                taken[name] = digest(tensor)
                yield name, tensor

        self.reload_weights(weights_iterator=passing())
        pack_again(self.model_runner.get_model())
        return taken

    def settings(self) -> dict[str, str]:
        """How the engine was started, in so far as a run depends on it."""
        config = self.vllm_config
        return {
            "logprobs_mode": str(config.model_config.logprobs_mode),
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "tensor_parallel": str(config.parallel_config.tensor_parallel_size),
            "prefix_caching": str(bool(config.cache_config.enable_prefix_caching)),
        }

    def parameters(self) -> dict[str, list[int]]:
        """Shapes of what this worker holds; of a matrix that is packed elsewhere, an empty one."""
        named = self.model_runner.get_model().named_parameters()
        return {name: list(parameter.shape) for name, parameter in named}

    def wrong_products(self, folder: str) -> list[str]:
        """Packed matrices that multiply otherwise than the folder's; of an engine of one rank."""
        return differing_products(self.model_runner.get_model(), as_engine(dict(tensors_of(Path(folder)))))

    def packed_matrices(self) -> list[str]:
        """How many there are, as their names."""
        return [name for name, _ in packed(self.model_runner.get_model())]


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


def differing_products(model: Any, expected: dict[str, Tensor]) -> list[str]:
    """Names of packed matrices whose products are not those of the expected ones, in order.

    Args:
        expected: by the engine's names; a head that is not among them is tied to the input embeddings.
    """
    tied = next((tensor for name, tensor in expected.items() if name.endswith("embed_tokens.weight")), None)
    wrong = []
    for name, module in packed(model):
        matrix = expected.get(f"{name}.weight", tied if name.endswith("lm_head") else None)
        if matrix is None or not _multiplies_as(module, matrix):
            wrong.append(name)
    return sorted(wrong)


@torch.no_grad()
def _multiplies_as(module: Any, matrix: Tensor) -> bool:
    draws = torch.Generator().manual_seed(0)
    dtype = module.weight.dtype
    vectors = torch.randn(4, matrix.shape[1], generator=draws).to(dtype)
    wanted = vectors.float() @ matrix.to(dtype).float().T
    found = module.cpu_linear(vectors, module.weight, None).float()
    return found.shape == wanted.shape and bool(
        (found - wanted).abs().max() <= TOLERANCE[dtype] * wanted.abs().max()
    )
