"""A tokenizer whose tokens are bytes, and two more: what begins a text, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

END = 256
BEGIN = 257


@final
class ByteTokens:
    """Each byte is its own id."""

    ends = (END,)

    def prompt(self, question: str, /) -> tuple[int, ...]:
        return (BEGIN, *question.encode())

    def encode(self, text: str, /) -> tuple[int, ...]:
        return tuple(text.encode())

    def decode(self, token_ids: Sequence[int], /) -> str:
        return bytes(token for token in token_ids if token < 256).decode(errors="replace")

    def holding(self, text: str, /) -> tuple[int, ...]:
        return tuple(token for token in range(256) if text.encode() in bytes([token]))
