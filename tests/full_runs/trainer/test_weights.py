"""What leaves the trainer is what transformers loads."""

import json
import weakref
from pathlib import Path

import pytest
import torch

from full_runs.trainer.build import built
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.model import load
from full_runs.trainer.weights import outlines, published_weights, save_weights, whole_weights
from tests.full_runs.trainer import tiny

pytest.importorskip("transformers", reason=tiny.WHY)


def trained(folder, alone):
    trainer = built(TrainerConfig(model=folder, estimator="grpo_dis", learning_rate=1e-3), alone)
    trainer.update(tiny.sampled_by(tiny.policy(folder), tiny.lesson(0)))
    return trainer


@pytest.mark.parametrize("tied", [True, False])
def test_saved_weights_are_the_trainers_and_tied_ones_are_there_once(tmp_path, alone, tied):
    trainer = trained(tiny.qwen(tmp_path / "start", tied=tied), alone)
    save_weights(trainer.policy, tmp_path / "saved", alone, dtype=torch.float32)
    loaded = tiny.policy(str(tmp_path / "saved"))
    assert tiny.apart(tiny.weights(loaded), tiny.weights(trainer.policy)) == 0
    names = [name for name, _ in whole_weights(trainer.policy, torch.float32)]
    assert len(set(names)) == len(names)
    assert ("lm_head.weight" in names) is not tied
    assert loaded.model.config.tie_word_embeddings is tied


def test_files_are_bounded_and_an_index_says_which_holds_what(tmp_path, alone):
    trainer = trained(tiny.qwen(tmp_path / "start"), alone)
    save_weights(trainer.policy, tmp_path / "saved", alone, dtype=torch.float32, file_bytes=20_000)
    index = json.loads((tmp_path / "saved" / "model.safetensors.index.json").read_text())
    files = sorted(Path(tmp_path / "saved").glob("*.safetensors"))
    assert sorted(set(index["weight_map"].values())) == [file.name for file in files]
    assert len(files) > 2
    # A header of names, and the numbers themselves; no weight here is larger than the bound.
    assert all(file.stat().st_size < 20_000 + 2_000 for file in files)
    loaded = tiny.weights(tiny.policy(str(tmp_path / "saved")))
    assert tiny.apart(loaded, tiny.weights(trainer.policy)) == 0


def test_a_second_save_takes_the_place_of_the_first_and_has_the_engines_precision(tmp_path, alone):
    trainer = trained(tiny.qwen(tmp_path / "start"), alone)
    save_weights(trainer.policy, tmp_path / "saved", alone, dtype=torch.float32, file_bytes=20_000)
    save_weights(trainer.policy, tmp_path / "saved", alone, dtype=torch.bfloat16)
    assert sorted(file.name for file in (tmp_path / "saved").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["dtype"] == "bfloat16"
    rounded = {n: w.bfloat16().float() for n, w in tiny.weights(trainer.policy).items()}
    assert tiny.apart(tiny.weights(tiny.policy(str(tmp_path / "saved"))), rounded) == 0


def test_weights_are_the_new_ones_after_a_pass_without_gradient(tmp_path, alone):
    """FSDP2 leaves the embeddings whole after such a pass: what is read must be what the optimizer moves."""
    trainer = trained(tiny.qwen(tmp_path / "start"), alone)
    lesson = tiny.sampled_by(tiny.policy(str(tmp_path / "start")), tiny.lesson(1))
    trainer.log_probs(lesson)
    first = dict(whole_weights(trainer.policy, torch.float32))["model.embed_tokens.weight"].clone()
    trainer.log_probs(lesson)
    trainer.update(lesson)
    trainer.log_probs(lesson)
    second = dict(whole_weights(trainer.policy, torch.float32))["model.embed_tokens.weight"]
    assert (first - second).abs().max() > 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_announced_is_what_is_gathered_and_one_tensor_is_alive_at_a_time(tmp_path, alone, dtype):
    trainer = trained(tiny.qwen(tmp_path / "start", tied=False), alone)
    announced = outlines(trainer.policy, dtype)
    live = most = 0

    def ended(size):
        nonlocal live
        live -= size

    found = []
    for name, tensor in published_weights(trainer.policy, dtype):
        size = tensor.nbytes
        live += size
        most = max(most, live)
        weakref.finalize(tensor, ended, size)
        found.append((name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), size))
        del tensor
    assert [each[:3] for each in found] == announced
    assert most == max(each[3] for each in found)
    assert most < sum(each[3] for each in found) / 3


def test_experts_are_written_one_by_one_as_published(tmp_path, alone):
    """transformers holds a layer's experts as one tensor; files and engines know them by number."""
    from safetensors import safe_open
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        vocab_size=tiny.VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        moe_intermediate_size=24,
        num_experts=3,
        num_experts_per_tok=2,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
    )
    Qwen3MoeForCausalLM(config).save_pretrained(tmp_path / "start")
    trainer = trained(str(tmp_path / "start"), alone)
    save_weights(trainer.policy, tmp_path / "saved", alone, dtype=torch.float32)
    names = []
    for folder in ("start", "saved"):
        with safe_open(tmp_path / folder / "model.safetensors", framework="pt") as file:
            names.append(sorted(file.keys()))
    assert names[0] == names[1]
    assert "model.layers.0.mlp.experts.2.down_proj.weight" in names[1]
    announced = outlines(trainer.policy, torch.float32)
    assert sorted(each.name for each in announced) == names[1]
    sent = [(name, tuple(tensor.shape)) for name, tensor in published_weights(trainer.policy, torch.float32)]
    assert sent == [(each.name, each.shape) for each in announced]
    loaded = load(str(tmp_path / "saved"))
    wanted = tiny.weights(trainer.policy.model)
    assert tiny.apart(tiny.weights(loaded), wanted) == 0
