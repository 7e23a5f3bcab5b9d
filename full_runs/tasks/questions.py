"""Whose questions? The user's: a file with a question and its answer on each line.

Which of them is asked when, and which never in training: `order`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from full_runs.tasks.answers import Fallback, answer_of, is_right
from full_runs.tasks.order import TENTH, Order


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the answer that is wanted."""

    prompt: str
    answer: str
    line: int
    """Where it stands in its file, from 1."""


def read_questions(path: Path) -> list[Question]:
    """All questions of a file: `{"prompt": ..., "answer": ...}` on each line; empty lines are passed over.

    Raises:
        ValueError: the file or a line cannot be used; names line and field.
    """
    questions = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    questions.append(_question(text, f"{path}, line {number}", number))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"path {path}: {error}") from None
    if not questions:
        raise ValueError(f"path {path}: no question in it")
    return questions


def _question(text: str, where: str, line: int) -> Question:
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: it is no JSON: {error}") from None
    if not isinstance(read, dict):
        raise ValueError(f"{where}: it is no object, got {text.strip()[:60]}")
    for field in ("prompt", "answer"):
        if field not in read:
            raise ValueError(f"{where}: {field} is missing")
        if not isinstance(read[field], str):
            raise ValueError(f"{where}: {field} is a text, got {json.dumps(read[field])[:60]}")
        if not read[field].strip():
            raise ValueError(f"{where}: {field} is empty")
        try:
            read[field].encode()
        except UnicodeEncodeError:
            raise ValueError(f"{where}: {field} has half of a surrogate pair") from None
    return Question(prompt=read["prompt"], answer=read["answer"], line=line)


@final
class Questions:
    """A source of questions with answers; checks are made here, of texts alone.

    Args:
        trained: what is trained on.
        held_out: what is measured on; None takes every tenth of `trained`.
        fallback: of a response in which nothing is boxed.
        seed: of the order.

    Raises:
        ValueError: fewer than ten questions, from which a tenth should be held out.
    """

    def __init__(
        self,
        trained: Sequence[Question],
        held_out: Sequence[Question] | None,
        *,
        fallback: Fallback,
        seed: int,
    ) -> None:
        if held_out is None and len(trained) < TENTH:
            raise ValueError(
                f"{len(trained)} questions: with fewer than {TENTH} none can be held out; name a file in"
                " held_out_path"
            )
        self._order = Order(trained, held_out, seed=seed)
        self.trained, self.held_out = self._order.trained, self._order.held_out
        self._fallback: Fallback = fallback

    def of(self, prompt_id: int) -> Question:
        """The question that a number stands for."""
        return self._order.of(prompt_id)

    async def question(self, prompt_id: int, /) -> str:
        return self.of(prompt_id).prompt

    async def reward(self, prompt_id: int, response: str, /) -> float:
        return float(is_right(answer_of(response, self._fallback), self.of(prompt_id).answer))

    async def close(self) -> None:
        pass  # nothing runs
