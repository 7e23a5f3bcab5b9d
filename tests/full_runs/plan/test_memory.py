"""Bytes of a GPU: by hand, as laws, and beside what torch really keeps."""

import dataclasses
from typing import Any

import pytest
import torch

from full_runs.plan.architecture import PUBLISHED, Architecture
from full_runs.plan.engine_memory import Share, capacity_tokens, engine_bytes, kv_bytes_a_gpu
from full_runs.plan.times import of_roofline
from full_runs.plan.trainer_memory import (
    PASSING,
    Load,
    activation_bytes,
    block_activation_bytes,
    gathered_bytes,
    trainer_bytes,
)
from simulator.planner import roofline
from simulator.planner.accelerators import H100, Achieved
from tests.full_runs.plan.test_architecture import MIXTURE, SMALL, WHY, as_config

EIGHT = PUBLISHED["Qwen/Qwen3-8B"]
LOAD = Load(ranks=8, precision_bytes=2, micro_batch_tokens=4096, checkpointed=True, critic=True)


def lasting(model: Architecture, load: Load) -> float:
    return sum(size for name, size in trainer_bytes(model, load).items() if name not in PASSING)


def test_16_bytes_a_parameter_over_the_ranks() -> None:
    alone = dataclasses.replace(LOAD, critic=False)
    assert lasting(EIGHT, alone) == pytest.approx(16 * 8_190_735_360 / 8)


def test_what_lasts_is_shared_and_what_passes_is_not() -> None:
    half = dataclasses.replace(LOAD, ranks=16)
    assert lasting(EIGHT, half) == pytest.approx(lasting(EIGHT, LOAD) / 2)
    assert all(trainer_bytes(EIGHT, half)[name] == trainer_bytes(EIGHT, LOAD)[name] for name in PASSING)


def test_a_critic_with_frozen_attention_keeps_its_weights_and_no_more_of_it() -> None:
    whole = dataclasses.replace(LOAD, attention_frozen=False)
    spared = lasting(EIGHT, whole) - lasting(EIGHT, LOAD)
    assert spared == pytest.approx(12 * 36 * EIGHT.attention / 8)


def test_a_reference_is_weights_alone() -> None:
    beside = dataclasses.replace(LOAD, reference=True)
    assert lasting(EIGHT, beside) - lasting(EIGHT, LOAD) == pytest.approx(4 * EIGHT.total / 8)


def test_gathered_by_hand() -> None:
    root = SMALL.total - 3 * SMALL.block
    assert gathered_bytes(SMALL, 4) == 4 * (root + 2 * SMALL.block) + 4 * (root + SMALL.block)
    assert gathered_bytes(SMALL, 2) == 2 * (root + 2 * SMALL.block) + 6 * (root + SMALL.block)
    assert gathered_bytes(SMALL, 2, others=1) - gathered_bytes(SMALL, 2) == 2 * SMALL.embedding


@pytest.mark.parametrize("model", list(PUBLISHED.values()))
def test_checkpointing_keeps_an_input_a_block_and_one_block(model: Architecture) -> None:
    full, spare = (activation_bytes(model, 1000, 2, checkpointed=c) for c in (False, True))
    block = 1000 * block_activation_bytes(model, 2)
    assert full == model.layers * block
    assert spare == model.layers * 1000 * 2 * model.hidden + block
    assert spare < full / 10


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", [SMALL, MIXTURE])
def test_torch_keeps_as_many_bytes(model: Architecture, dtype: torch.dtype) -> None:
    """What autograd saves of one block more, parameters apart."""
    grown = {"hidden": 64, "head_dim": 32, "intermediate": 48, "vocabulary": 50}
    model = model.model_copy(update=grown)
    two, three = (kept_bytes(model.model_copy(update={"layers": n}), dtype) for n in (2, 3))
    expected = block_activation_bytes(model, dtype.itemsize)
    assert (three - two) / 128 == pytest.approx(expected, rel=1e-12 if model.experts == 1 else 0.02)


def kept_bytes(model: Architecture, dtype: torch.dtype) -> int:
    transformers = pytest.importorskip("transformers", reason=WHY)
    make = transformers.Qwen3Config if model.experts == 1 else transformers.Qwen3MoeConfig
    module = transformers.AutoModelForCausalLM.from_config(make(**as_config(model)), dtype=dtype)
    own = {p.untyped_storage().data_ptr() for p in module.parameters()}
    alive: list[Any] = []
    sizes: dict[int, int] = {}

    def seen(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    tokens = torch.arange(128)[None] % model.vocabulary
    with torch.autograd.graph.saved_tensors_hooks(seen, lambda kept: kept):
        module.get_decoder()(input_ids=tokens, use_cache=False)
    return sum(sizes.values())


SHARE = Share(tensor_parallel=2, precision_bytes=2, requests=64, held_tokens=2000.0)


def test_an_engine_by_hand() -> None:
    # 36 layers * 2 * 8 heads * 128 numbers * 2 bytes, over 2 GPUs.
    assert kv_bytes_a_gpu(EIGHT, SHARE) == 36 * 2 * 8 * 128 * 2 / 2
    rows = engine_bytes(EIGHT, SHARE)
    assert rows["weights"] == 8_190_735_360
    assert rows["keys and values of the wanted rollouts"] == 64 * 2000 * 73_728


def test_beyond_its_heads_keys_are_copied() -> None:
    four, eight, sixteen = (
        kv_bytes_a_gpu(EIGHT, dataclasses.replace(SHARE, tensor_parallel=n)) for n in (4, 8, 16)
    )
    assert four == 2 * eight
    assert sixteen == eight


def test_capacity_is_what_is_left_and_the_planners_own() -> None:
    budget = 0.9 * H100.memory_bytes
    rows = engine_bytes(EIGHT, dataclasses.replace(SHARE, held_tokens=0.0))
    capacity = capacity_tokens(EIGHT, SHARE, budget)
    used = sum(rows.values()) + capacity * kv_bytes_a_gpu(EIGHT, SHARE)
    assert budget - kv_bytes_a_gpu(EIGHT, SHARE) < used <= budget
    usable = (budget - rows["vLLM's workspace and logits"]) / H100.memory_bytes
    achieved = Achieved(memory_usable=usable)
    theirs = roofline.kv_capacity_tokens(of_roofline(EIGHT, SHARE), H100, achieved, gpus=2)
    assert abs(theirs - capacity) <= 1
