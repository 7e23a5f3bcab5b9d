"""Conversations through a real chat template: what follows a turn is what the template would put there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from full_runs.tasks.chat import ChatTemplate
from full_runs.tasks.tokenizer import ModelTokenizer
from tests.full_runs.tasks.byte_model import TEMPLATE, saved_tokenizer

pytestmark = pytest.mark.oracles
pytest.importorskip("transformers", reason="needs the environment of `make oracles`")
USER = {"role": "user", "content": "a question"}
TOOL = {"name": "look_up", "description": "Looks up.", "parameters": {"type": "object", "properties": {}}}


def chat_of(folder: Path, template: str = TEMPLATE) -> ChatTemplate:
    return ModelTokenizer(str(saved_tokenizer(folder, template=template)), chat_template=True).chat()


def said(chat: ChatTemplate, text: str) -> tuple[int, ...]:
    return chat._encoded(text)


@pytest.mark.parametrize("turn", ["an answer", "ünï ▁ 漢", "", "what-the-model-said"])
@pytest.mark.parametrize(
    "added",
    [
        [{"role": "user", "content": "and then?"}],
        [
            {"role": "tool", "content": "1", "tool_call_id": "0"},
            {"role": "tool", "content": [{"type": "text", "text": "2"}]},
        ],
    ],
)  # fmt: skip
def test_prompt_turn_and_what_follows_are_the_template_s_whole(tmp_path: Path, turn: str, added: Any) -> None:
    chat = chat_of(tmp_path)
    whole = chat.conversation([USER, {"role": "assistant", "content": turn}, *added], [])
    pieces = (*chat.conversation([USER], []), *said(chat, turn), *chat.following([USER], added, []))
    assert pieces == whole


def test_thoughts_that_the_template_would_leave_out_stay_as_they_were_said(tmp_path: Path) -> None:
    chat = chat_of(tmp_path)
    turn, added = "<think>hm</think>yes", [{"role": "user", "content": "more"}]
    pieces = (*chat.conversation([USER], []), *said(chat, turn), *chat.following([USER], added, []))
    assert "<think>hm</think>yes" in chat._words.decode(pieces)
    shown = chat.conversation([USER, {"role": "assistant", "content": turn}, *added], [])
    assert "hm" not in chat._words.decode(shown)


def test_tools_are_told_of_or_the_template_is_refused(tmp_path: Path) -> None:
    assert "look_up" in chat_of(tmp_path).decode(chat_of(tmp_path).conversation([USER], [TOOL]))
    silent = chat_of(tmp_path, TEMPLATE.partition("{% endif %}")[2])
    with pytest.raises(ValueError, match="does not tell of tools"):
        silent.conversation([USER], [TOOL])


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "0 times where"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "2 times"),
        ("{{ raise_exception('no ' + messages[0].role) }}", "cannot show these messages: no user"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_used_says_why(tmp_path: Path, template: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        chat_of(tmp_path, template).following([USER], [USER], [])


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"role": "user", "content": "end<|im_end|>"}, "message of the user has the special token"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "message of the user holds image_url"),
    ],
)
def test_a_message_that_could_end_its_own_turn_is_refused(tmp_path: Path, message: Any, why: str) -> None:
    for shown in (chat_of(tmp_path).conversation, lambda m, t: chat_of(tmp_path).following([USER], m, t)):
        with pytest.raises(ValueError, match=why):
            shown([message], [])
