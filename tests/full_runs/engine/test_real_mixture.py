"""A mixture of experts in a real engine on a CPU: a push gives it other weights, and they are compared.

With vLLM's own reload alone log-probs were those of no weights at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from full_runs.engine.digests import inventory
from full_runs.engine.sampling import Sampling
from tests.full_runs.real import (
    POSITIONS,
    VOCABULARY,
    draw,
    loaded_unseen,
    needs_engines,
    now,
    off_by_one_bit,
    options,
    serving,
)

pytestmark = needs_engines()
PROMPT = [1, 2, 3]


def mixture(folder: Path, seed: int) -> Path:
    """Saved as published: experts one by one."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    from full_runs.tasks.tiny_model import save

    config = Qwen3MoeConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, moe_intermediate_size=64, num_experts=4,
        num_experts_per_tok=2, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        max_position_embeddings=POSITIONS, tie_word_embeddings=False, norm_topk_prob=True, dtype="float32",
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = Qwen3MoeForCausalLM(config).float()
    draw(model, seed)
    save(model, folder, vocabulary=VOCABULARY)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("mixture")
    return mixture(place / "old", 0), mixture(place / "new", 1)


@pytest.fixture(scope="module")
def url(folders: tuple[Path, Path]) -> Iterator[str]:
    from full_runs.engine.server import Server

    with serving(Server(folders[0], log=folders[0].parent / "log.txt", options=options())) as url:
        yield url


def test_a_push_gives_a_mixture_its_weights_experts_among_them(
    folders: tuple[Path, Path], url: str, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    from full_runs.engine.client import EngineClient
    from full_runs.push import Pusher
    from full_runs.push_folder import InFolder

    wanted = inventory(folders[1])

    async def ask() -> tuple[Any, Any]:
        async with EngineClient(url) as client:
            pushed = await Pusher(wanted=wanted).push([client], InFolder(folders[1]), 1)
            answer = await client.generate(PROMPT, sampling=Sampling(), max_tokens=60)
            router = "model.layers.1.mlp.gate.weight"
            await loaded_unseen(client, off_by_one_bit(folders[1], router, tmp_path / "router"))
            # vLLM's own reload leaves experts that are not packed: all of them are named, too.
            with pytest.raises(ValueError, match=f"than it took: .*experts.2, .*{router}") as found:
                await client.check_held()
            assert "q_proj" not in str(found.value)
            pushed = await Pusher(wanted=wanted).push([client], InFolder(folders[1]), 2)
            assert await client.check_held() == pushed.compared
            return pushed, answer

    pushed, answer = now(ask())
    assert pushed.failed == ()
    assert pushed.tensors == len(wanted)
    # On a CPU packed copies of both embeddings beside them.
    assert pushed.compared == len(wanted) + 2
    model = AutoModelForCausalLM.from_pretrained(folders[1], dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT, *answer.token_ids]])).logits[0, len(PROMPT) - 1 : -1]
    theirs = logits.log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
    assert torch.tensor(answer.log_probs) == pytest.approx(theirs, abs=1e-5)
