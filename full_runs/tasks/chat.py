"""How do messages become token ids, without encoding anew what the model said?

The prompt's messages are rendered by the chat template once. What the environment adds later is rendered
behind a stand-in for the model's turn, and only what follows the stand-in is kept: the end of that turn, the
messages, and the head of the next turn. So templates that show earlier turns otherwise (without their
thoughts, say) change nothing that is there. A template that alters or drops the stand-in cannot be used.

*Choice*: a message with a special token written out in it is refused: it could end its own turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, final

Message: TypeAlias = Mapping[str, Any]
Tool: TypeAlias = Mapping[str, Any]
_STAND_IN: Final = "what-the-model-said"


class Chat(Protocol):
    """What a world of conversations needs of a tokenizer."""

    @property
    def ends(self) -> tuple[int, ...]:
        """Tokens after any of which a turn has ended."""

    def conversation(self, messages: Sequence[Message], tools: Sequence[Tool], /) -> tuple[int, ...]:
        """All that the model is given, up to where it begins.

        Raises:
            ValueError: the template, or a message, cannot be used.
        """

    def following(
        self, messages: Sequence[Message], added: Sequence[Message], tools: Sequence[Tool], /
    ) -> tuple[int, ...]:
        """What follows a turn of the model: its end, what was added, the head of the next turn.

        Args:
            messages: of the prompt.
            added: since the model's turn.
            tools: that the prompt told of.

        Raises:
            ValueError: as `conversation`.
        """

    def decode(self, token_ids: Sequence[int], /) -> str:
        """Without special tokens."""


@final
class ChatTemplate:
    """That of a tokenizer of transformers.

    Args:
        words: the tokenizer.
        ends: its tokens that end a turn.
    """

    def __init__(self, words: Any, ends: tuple[int, ...]) -> None:
        self._words = words
        self.ends = ends
        special = {str(token) for token in words.added_tokens_decoder.values() if token.special}
        self._special = tuple(sorted(special | set(words.all_special_tokens)))

    def conversation(self, messages: Sequence[Message], tools: Sequence[Tool], /) -> tuple[int, ...]:
        text = self._rendered(messages, tools)
        if tools and text == self._rendered(messages, ()):
            raise ValueError("the chat template does not tell of tools, and the environment has some")
        return self._encoded(text)

    def following(
        self, messages: Sequence[Message], added: Sequence[Message], tools: Sequence[Tool], /
    ) -> tuple[int, ...]:
        said = {"role": "assistant", "content": _STAND_IN}
        parts = self._rendered([*messages, said, *added], tools).split(_STAND_IN)
        if len(parts) != 2:
            raise ValueError(
                f"the chat template shows a turn of the model {len(parts) - 1} times where it is followed by"
                f" {', '.join(str(message['role']) for message in added)}"
            )
        return self._encoded(parts[1])

    def decode(self, token_ids: Sequence[int], /) -> str:
        return str(
            self._words.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        for message in messages:
            content = text_of(message)
            if found := next((token for token in self._special if token in content), None):
                raise ValueError(f"a message of the {message['role']} has the special token {found} in it")
        shown = [{"type": "function", "function": dict(tool)} for tool in tools] or None
        try:
            return str(
                self._words.apply_chat_template(
                    [_shown(message) for message in messages],
                    tools=shown,
                    add_generation_prompt=True,
                    tokenize=False,
                )
            )
        except Exception as error:  # a template is a program, and may raise what it likes
            raise ValueError(f"the chat template cannot show these messages: {error}") from None

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self._words(text, add_special_tokens=False)["input_ids"])


def text_of(message: Message) -> str:
    """A message's words.

    Raises:
        ValueError: it holds an image, or a sound.
    """
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    kinds = {str(part.get("type")) for part in content}
    if kinds - {"text"}:
        raise ValueError(f"a message of the {message['role']} holds {', '.join(sorted(kinds - {'text'}))}")
    return "\n".join(str(part["text"]) for part in content)


def _shown(message: Message) -> dict[str, Any]:
    """As chat templates want it: words in one piece, calls of tools in OpenAI's form."""
    kept = {name: message[name] for name in ("role", "name", "tool_call_id") if name in message}
    shown = kept | {"content": text_of(message)}
    if calls := message.get("tool_calls"):
        shown["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.loads(call["arguments"])},
            }
            for call in calls
        ]
    return shown
