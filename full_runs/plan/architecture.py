r"""How many parameters has a Qwen3, and where are they?

A block of width h, with H query heads and K heads of keys and values of d numbers, and m numbers inside each
of its E networks (E = 1 in a dense model):

.. math:: \underbrace{2 h H d + 2 h K d + 2 d}_{\text{attention}} + \underbrace{3 h m E + [E > 1] h E}_{
    \text{feed-forward, router}} + 2 h

beside the embeddings, the last norm, and a head of its own where it is not tied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

Size: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]


@final
class Architecture(BaseModel):
    """Sizes of a Qwen3; all its counts are in parameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: Size
    hidden: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    intermediate: Size
    """Inside a feed-forward network; of each expert."""
    experts: Size = 1
    """1: dense."""
    experts_per_token: Size = 1
    vocabulary: Size
    tied: bool

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for many, few in (("heads", "kv_heads"), ("experts", "experts_per_token")):
            if getattr(self, many) < getattr(self, few):
                raise ValueError(f"{many} ({getattr(self, many)}) is less than {few} ({getattr(self, few)})")
        return self

    @property
    def attention(self) -> int:
        """Of one block, its norms of queries and keys included."""
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads) + 2 * self.head_dim

    @property
    def expert(self) -> int:
        """Of one feed-forward network."""
        return 3 * self.hidden * self.intermediate

    @property
    def block(self) -> int:
        router = self.hidden * self.experts if self.experts > 1 else 0
        return self.attention + self.experts * self.expert + router + 2 * self.hidden

    @property
    def embedding(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def body(self) -> int:
        """All but a head of its own: what a critic copies."""
        return self.embedding + self.layers * self.block + self.hidden

    @property
    def total(self) -> int:
        return self.body + (0 if self.tied else self.embedding)

    @property
    def active(self) -> int:
        """That one token uses."""
        return self.total - self.layers * (self.experts - self.experts_per_token) * self.expert

    @property
    def kv_numbers(self) -> int:
        """Of one token's keys and values."""
        return 2 * self.layers * self.kv_heads * self.head_dim


PUBLISHED: Final[Mapping[str, Architecture]] = {
    "Qwen/Qwen3-0.6B": Architecture(
        layers=28, hidden=1024, heads=16, kv_heads=8, head_dim=128, intermediate=3072,
        vocabulary=151_936, tied=True,
    ),
    "Qwen/Qwen3-8B": Architecture(
        layers=36, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=12_288,
        vocabulary=151_936, tied=False,
    ),
    "Qwen/Qwen3-30B-A3B": Architecture(
        layers=48, hidden=2048, heads=32, kv_heads=4, head_dim=128, intermediate=768,
        experts=128, experts_per_token=8, vocabulary=151_936, tied=False,
    ),
}  # fmt: skip
"""By name on the hub; the numbers of their public config.json. Technical report: arXiv 2505.09388."""


def architecture(model: str) -> Architecture:
    """Of a name in `PUBLISHED`, or of a folder with a config.json.

    Errors:
        ValueError: neither, or another kind of model.
    """
    if model in PUBLISHED:
        return PUBLISHED[model]
    file = Path(model).expanduser() / "config.json"
    if not file.is_file():
        raise ValueError(
            f"model {model!r} is no folder with a config.json, and none of {', '.join(PUBLISHED)}: download"
            " it and name the folder"
        )
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise ValueError(f"{file}: {wrong}") from None
    if not isinstance(given, dict):
        raise ValueError(f"{file} holds no object")
    try:
        return from_config(given)
    except KeyError as absent:
        raise ValueError(f"{file} has no {absent.args[0]}") from None
    except ValueError as wrong:
        raise ValueError(f"{file}: {wrong}") from None


def from_config(given: Mapping[str, Any]) -> Architecture:
    """From the fields of a config.json of transformers.

    Errors:
        KeyError: a field is missing.
        ValueError: a model that is not counted here, or an impossible size.
    """
    kind = given["model_type"]
    if kind not in ("qwen3", "qwen3_moe"):
        raise ValueError(
            f"model_type {kind!r} is neither qwen3 nor qwen3_moe: its parameters are not counted"
        )
    mixture = kind == "qwen3_moe"
    uncounted = {"attention_bias": False, "mlp_only_layers": [], "decoder_sparse_step": 1}
    for name, counted in uncounted.items():
        if (there := given.get(name) or counted) != counted:
            raise ValueError(f"{name} is {there}: only {counted} is counted here")
    return Architecture(
        layers=given["num_hidden_layers"],
        hidden=given["hidden_size"],
        heads=given["num_attention_heads"],
        kv_heads=given["num_key_value_heads"],
        head_dim=given.get("head_dim") or given["hidden_size"] // given["num_attention_heads"],
        intermediate=given["moe_intermediate_size" if mixture else "intermediate_size"],
        experts=given["num_experts"] if mixture else 1,
        experts_per_token=given["num_experts_per_tok"] if mixture else 1,
        vocabulary=given["vocab_size"],
        tied=given.get("tie_word_embeddings", False),
    )
