"""How does text become token ids? By the model's own tokenizer, once for each piece of text.

What a model says is never encoded: its ids are appended as they are, and decoded only to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

from full_runs.tasks.chat import ChatTemplate


class Tokenizer(Protocol):
    """What a world of text needs."""

    @property
    def ends(self) -> tuple[int, ...]:
        """Tokens after any of which a response has ended."""

    def prompt(self, question: str, /) -> tuple[int, ...]:
        """What the model is given, up to where it begins."""

    def encode(self, text: str, /) -> tuple[int, ...]:
        """A piece of text in the midst; it is text throughout, whatever looks like a special token in it."""

    def decode(self, token_ids: Sequence[int], /) -> str:
        """Without special tokens."""

    def holding(self, text: str, /) -> tuple[int, ...]:
        """All tokens in which this text occurs."""


@final
class ModelTokenizer:
    """That of a model on the hub or in a folder.

    Args:
        model: its name or folder.
        chat_template: whether a question is put as a user's message; else it is the text itself, after what
            the tokenizer begins a text with.

    Raises:
        ValueError: it cannot be loaded, has no chat template, or no token that ends a text.
    """

    def __init__(self, model: str, *, chat_template: bool) -> None:
        from transformers import AutoTokenizer

        try:
            self._words: Any = AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise ValueError(f"model {model}: its tokenizer cannot be loaded: {error}") from None
        if chat_template and self._words.chat_template is None:
            raise ValueError(f"model {model}: its tokenizer has no chat template; set chat_template to false")
        self._chat = chat_template
        self.ends: tuple[int, ...] = self._ends(model)
        if not self.ends:
            raise ValueError(f"model {model}: its tokenizer has no token that ends a text")

    def chat(self) -> ChatTemplate:
        """The same for conversations."""
        return ChatTemplate(self._words, self.ends)

    def prompt(self, question: str, /) -> tuple[int, ...]:
        if not self._chat:
            return tuple(self._words(question, split_special_tokens=True)["input_ids"])
        message = [{"role": "user", "content": question}]
        text = self._words.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        return tuple(self._words(text, add_special_tokens=False)["input_ids"])

    def encode(self, text: str, /) -> tuple[int, ...]:
        encoded = self._words(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(encoded["input_ids"])

    def decode(self, token_ids: Sequence[int], /) -> str:
        return str(
            self._words.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def holding(self, text: str, /) -> tuple[int, ...]:
        # Right for text in ASCII without spaces: byte-level vocabularies write that as it is.
        return tuple(sorted(token for word, token in self._words.get_vocab().items() if text in word))

    def _ends(self, model: str) -> tuple[int, ...]:
        """The tokenizer's, and those that the model's generation configuration names."""
        from transformers import GenerationConfig

        found: set[int] = {self._words.eos_token_id} - {None}
        try:
            named = GenerationConfig.from_pretrained(model).eos_token_id
        except OSError:
            named = None
        found.update(named if isinstance(named, list) else [] if named is None else [named])
        return tuple(sorted(found))
