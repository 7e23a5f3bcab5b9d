"""How does one get a language model without downloading one? A small Qwen3, made here, saved as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import torch
from pydantic import BaseModel, ConfigDict, Field


@final
class TinyModel(BaseModel):
    """Sizes of the network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(default=64, ge=8, le=4096, multiple_of=4)
    depth: int = Field(default=2, ge=1, le=64)
    heads: int = Field(default=4, ge=1, le=64)
    seed: int = 0


def outline(sizes: TinyModel) -> dict[str, int]:
    """The sizes as transformers calls them."""
    return {
        "hidden_size": sizes.width,
        "intermediate_size": 2 * sizes.width,
        "num_hidden_layers": sizes.depth,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": max(1, sizes.heads // 2),
        # An engine's attention kernels want a head of 32 numbers at least.
        "head_dim": max(32, sizes.width // sizes.heads),
    }


def made(sizes: TinyModel, *, vocabulary: int, positions: int) -> Any:
    """A Qwen3 with random weights, in single precision; input and output embeddings are tied."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=vocabulary,
        **outline(sizes),
        max_position_embeddings=max(positions, 32),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        dtype="float32",
    )
    with torch.random.fork_rng():
        torch.manual_seed(sizes.seed)
        model = Qwen3ForCausalLM(config)
    return model.float()


def save(model: Any, folder: Path, *, vocabulary: int) -> None:
    """Weights, configuration, and a tokenizer whose words are the ids themselves."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()  # of writing one file

    words = {f"<{token}>": token for token in range(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<0>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    model.save_pretrained(folder)
