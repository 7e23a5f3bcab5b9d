"""Which experts of a mixture does an engine on a CPU compute with after a push?

vLLM 0.32 packs them when it starts, and after a reload multiplies with the new ones as if they were packed:
numbers that are nobody's. So they are compared as they came, expert by expert, and then packed here. What a
GPU's kernel makes of them differs from kernel to kernel: there they are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from full_runs.engine.layout import EXPERTS, digest


def layers(model: Any) -> Iterator[tuple[str, Any]]:
    """(what the checkpoint's names of its experts begin with, module) of each layer with experts on a CPU."""
    for name, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if "w13_weight" in own and own["w13_weight"].device.type == "cpu":
            yield f"{name}.".partition(EXPERTS)[0] + EXPERTS, module


def differing_experts(model: Any, expected: Mapping[str, str]) -> dict[str, bool]:
    """By the checkpoint's names: is a tensor held otherwise than expected, before it is packed?

    Args:
        expected: digests of what this process is to keep.
    """
    found = {}
    for prefix, layer in layers(model):
        for number, (gate_and_up, down) in enumerate(_experts(layer)):
            gate, up = gate_and_up.chunk(2)
            for module, numbers in (("gate_proj", gate), ("up_proj", up), ("down_proj", down)):
                name = f"{prefix}{number}.{module}.weight"
                found[name] = expected.get(name) != digest(numbers)
    return found


def pack_experts(model: Any) -> None:
    """As vLLM does at its start; they must not be packed already."""
    for _, layer in layers(model):
        layer.quant_method.moe_kernel.fused_experts.process_weights_after_loading(layer)


def digests_of_packed(model: Any) -> dict[str, str]:
    """Of each expert as the engine computes with it."""
    return {
        f"{prefix}{number}": digest(gate_and_up) + digest(down)
        for prefix, layer in layers(model)
        for number, (gate_and_up, down) in enumerate(_experts(layer))
    }


def _experts(layer: Any) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(layer.w13_weight.detach(), layer.w2_weight.detach(), strict=True)
