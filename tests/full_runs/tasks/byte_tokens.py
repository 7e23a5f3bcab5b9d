"""A tokenizer whose tokens are bytes, and two more: what begins a text, and what ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

END = 256
BEGIN = 257
Record: TypeAlias = Mapping[str, Any]


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


@final
class ByteChat:
    """The same for conversations: `[role]` before each message's words, `END` and a line feed behind them."""

    ends = (END,)

    def conversation(self, messages: Sequence[Record], tools: Sequence[Record], /) -> tuple[int, ...]:
        told = f"[tools]{' '.join(str(tool['name']) for tool in tools)}\n" if tools else ""
        return (BEGIN, *told.encode(), *_shown(messages))

    def following(
        self,
        messages: Sequence[Record],  # noqa: ARG002
        added: Sequence[Record],
        tools: Sequence[Record],  # noqa: ARG002
        /,
    ) -> tuple[int, ...]:
        return (END, *b"\n", *_shown(added))

    def decode(self, token_ids: Sequence[int], /) -> str:
        return ByteTokens().decode(token_ids)


def _shown(messages: Sequence[Record]) -> tuple[int, ...]:
    lines = [(*f"[{one['role']}]{one['content']}".encode(), END, *b"\n") for one in messages]
    return (*(token for line in lines for token in line), *b"[assistant]")
