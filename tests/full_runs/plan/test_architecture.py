"""Parameters as published, by hand, and as the real modules have them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from full_runs.plan.architecture import PUBLISHED, Architecture, architecture, from_config
from full_runs.plan.trainer_memory import critic_parameters, critic_trained

SMALL = Architecture(
    layers=3, hidden=8, heads=4, kv_heads=2, head_dim=6, intermediate=7, vocabulary=11, tied=True
)
MIXTURE = SMALL.model_copy(update={"experts": 6, "experts_per_token": 2, "tied": False})
WHY = "needs transformers, which the environment of `make full` has"


@pytest.mark.parametrize(
    ("name", "total", "active", "without_embeddings"),
    [
        ("Qwen/Qwen3-0.6B", 596_049_920, 596_049_920, 0.44e9),
        # Of a block: 4096 (2 * 4096 + 2 * 1024) + 256 + 3 * 4096 * 12,288 + 8192 = 192,946,432; 36 of them,
        # 2 * 151,936 * 4096 for embeddings and head, 4096 for the last norm.
        ("Qwen/Qwen3-8B", 8_190_735_360, 8_190_735_360, 6.95e9),
        # Of a block: 2048 (2 * 4096 + 2 * 512) + 256 + 128 (3 * 2048 * 768 + 2048) + 4096 = 623,120,640.
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624, 3_353_032_704, 29.9e9),
    ],
)
def test_published_totals(name: str, total: int, active: int, without_embeddings: float) -> None:
    model = PUBLISHED[name]
    assert (model.total, model.active) == (total, active)
    embeddings = model.embedding * (1 if model.tied else 2)
    # The model cards state it in two or three digits.
    assert math.isclose(total - embeddings, without_embeddings, rel_tol=0.005)


def test_a_block_by_hand() -> None:
    attention = 8 * 24 * 2 + 8 * 12 * 2 + 12
    assert SMALL.block == attention + 3 * 8 * 7 + 16
    assert SMALL.total == 88 + 3 * SMALL.block + 8
    assert MIXTURE.block == attention + 6 * (3 * 8 * 7) + 8 * 6 + 16
    assert MIXTURE.total == 2 * 88 + 3 * MIXTURE.block + 8
    assert MIXTURE.total - MIXTURE.active == 3 * 4 * (3 * 8 * 7)
    assert SMALL.kv_numbers == 3 * 2 * 2 * 6


def as_config(model: Architecture) -> dict[str, Any]:
    """The fields that transformers writes."""
    given: dict[str, Any] = {
        "model_type": "qwen3",
        "num_hidden_layers": model.layers,
        "hidden_size": model.hidden,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.intermediate,
        "vocab_size": model.vocabulary,
        "tie_word_embeddings": model.tied,
    }
    if model.experts > 1:
        given |= {
            "model_type": "qwen3_moe",
            "intermediate_size": 12_345,  # of dense layers, of which there are none
            "moe_intermediate_size": model.intermediate,
            "num_experts": model.experts,
            "num_experts_per_tok": model.experts_per_token,
        }
    return given


@pytest.mark.parametrize("model", [SMALL, MIXTURE, *PUBLISHED.values()])
def test_a_folders_config_says_the_same(model: Architecture, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(as_config(model)))
    assert architecture(str(tmp_path)) == model


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "llama"}, "model_type 'llama'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"num_key_value_heads": 8}, r"heads \(4\) is less than kv_heads \(8\)"),
        ({"hidden_size": 0}, "hidden"),
        ({"vocab_size": None}, "vocabulary"),
    ],
)
def test_what_is_not_counted_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_config(as_config(SMALL) | change)


@pytest.mark.parametrize(
    ("content", "said"), [("{", "config.json"), ("[]", "no object"), ('{"model_type": "qwen3"}', "has no ")]
)
def test_a_broken_config_is_refused_by_name(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=said):
        architecture(str(tmp_path))


def outlined(model: Architecture) -> Any:
    """The real module, without numbers."""
    transformers = pytest.importorskip("transformers", reason=WHY)
    given = as_config(model)
    make = transformers.Qwen3Config if model.experts == 1 else transformers.Qwen3MoeConfig
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(make(**given), dtype=torch.float32)


@pytest.mark.parametrize("model", [SMALL, MIXTURE, *PUBLISHED.values()])
def test_the_real_module_has_as_many(model: Architecture) -> None:
    assert sum(p.numel() for p in outlined(model).parameters()) == model.total


def test_the_tiny_model_has_as_many() -> None:
    pytest.importorskip("transformers", reason=WHY)
    from full_runs.tasks.tiny_model import TinyModel, made

    module = made(TinyModel(), vocabulary=17, positions=32)
    counted = from_config(module.config.to_dict())
    assert sum(p.numel() for p in module.parameters()) == counted.total


@pytest.mark.parametrize("model", [SMALL, MIXTURE])
def test_the_real_critic_has_as_many_and_trains_as_many(model: Architecture) -> None:
    pytest.importorskip("transformers", reason=WHY)
    from algorithms.critic import attention_modules, freeze
    from full_runs.trainer.model import CausalCritic, CausalPolicy

    critic = CausalCritic(CausalPolicy(outlined(model)))
    assert sum(p.numel() for p in critic.parameters()) == critic_parameters(model)
    assert critic_trained(model, attention_frozen=False) == critic_parameters(model)
    freeze(critic, attention_modules)
    trained = sum(p.numel() for p in critic.parameters() if p.requires_grad)
    assert trained == critic_trained(model, attention_frozen=True)
