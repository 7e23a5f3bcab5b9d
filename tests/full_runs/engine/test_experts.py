"""Experts that lie in one tensor, compared one by one, and packed once all of them are right.

The kernel here turns the order of an expert's rows; vLLM's own is in `test_real_mixture`.
"""

import types

import pytest
import torch
from torch import nn

from full_runs.engine.layout import Process, kept
from full_runs.engine.watch import Watch, all_came, compared

EXPERTS = 3
PREFIX = "model.layers.0.mlp.experts."
MODULES = {"gate_proj": (4, 6), "up_proj": (4, 6), "down_proj": (6, 4)}


def checkpoint():
    draws = torch.Generator().manual_seed(0)
    return {
        f"{PREFIX}{number}.{module}.weight": torch.randn(shape, generator=draws)
        for number in range(EXPERTS)
        for module, shape in MODULES.items()
    }


def engine(tensors, process):
    def stacked(module):
        names = [f"{PREFIX}{number}.{module}.weight" for number in range(EXPERTS)]
        return torch.stack([kept(name, tensors[name], process) for name in names])

    layer = nn.Module()
    both = torch.cat([stacked("gate_proj"), stacked("up_proj")], dim=1)
    layer.w13_weight = nn.Parameter(both, requires_grad=False)
    layer.w2_weight = nn.Parameter(stacked("down_proj"), requires_grad=False)

    def pack(layer):
        layer.w13_weight.data = layer.w13_weight.flip(1)
        layer.w2_weight.data = layer.w2_weight.flip(1)

    kernel = types.SimpleNamespace(process_weights_after_loading=pack)
    layer.quant_method = types.SimpleNamespace(moe_kernel=types.SimpleNamespace(fused_experts=kernel))
    model = nn.Module()
    model.add_module("model", nn.Module())
    model.model.layers = nn.ModuleList([nn.Module()])
    model.model.layers[0].mlp = nn.Module()
    model.model.layers[0].mlp.experts = nn.Module()
    model.model.layers[0].mlp.experts.routed = layer
    return model, layer


def watched(tensors, process):
    watch = Watch(torch.float32, process)
    for name, tensor in tensors.items():
        watch.see(name, tensor)
    return watch


@pytest.mark.parametrize("process", [Process(), Process(0, 2), Process(1, 2)])
def test_experts_that_came_right_are_packed_and_count(process):
    tensors = checkpoint()
    model, layer = engine(tensors, process)
    first = kept(f"{PREFIX}0.gate_proj.weight", tensors[f"{PREFIX}0.gate_proj.weight"], process)
    watch = watched(tensors, process)
    all_came(model, watch)
    assert compared(model, watch) == (len(tensors), [])
    assert torch.equal(layer.w13_weight[0].flip(0)[: len(first)], first)
    # Later, one bit of one expert as it is packed.
    layer.w2_weight.view(torch.int32)[2, 1, 0] ^= 1
    assert compared(model, watch).wrong == [f"{PREFIX}2"]


@pytest.mark.parametrize("module", MODULES)
def test_one_bit_of_one_expert_is_named_and_nothing_is_packed(module):
    tensors = checkpoint()
    model, layer = engine(tensors, Process())
    watch = watched(tensors, Process())
    numbers = layer.w2_weight if module == "down_proj" else layer.w13_weight
    row = {"gate_proj": 3, "up_proj": 4, "down_proj": 5}[module]
    numbers.view(torch.int32)[1, row, 0] ^= 1
    before = layer.w13_weight.clone()
    all_came(model, watch)
    assert compared(model, watch) == (len(tensors) - 1, [f"{PREFIX}1.{module}.weight"])
    assert torch.equal(layer.w13_weight, before)


def test_an_expert_that_nobody_sent_is_named():
    tensors = checkpoint()
    model, _ = engine(tensors, Process())
    lacking = f"{PREFIX}2.up_proj.weight"
    watch = watched({name: tensor for name, tensor in tensors.items() if name != lacking}, Process())
    all_came(model, watch)
    assert compared(model, watch).wrong == [lacking]
