"""Calls of tools in a turn's text: those that are well formed, and everything else as text."""

from __future__ import annotations

import json

import pytest

from full_runs.tasks.tool_calls import calls_of


def test_calls_are_read_in_order_and_the_rest_is_text() -> None:
    one = '<tool_call>\n{"name": "f", "arguments": {"x": [1, "</b>"]}}\n</tool_call>'
    two = '<tool_call>{"name": "g"}</tool_call>'
    text, calls = calls_of(f"so {one} and {two}\n")
    assert text == "so  and"
    assert [(call["id"], call["name"], json.loads(call["arguments"])) for call in calls] == [
        ("call-0", "f", {"x": [1, "</b>"]}), ("call-1", "g", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        " nothing ",
        "<tool_call>{}</tool_call>",
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": 3}</tool_call>',
        '<tool_call>{"name": "f"}',
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
        "<tool_call>" * 2000,
    ],
)
def test_what_is_no_call_stays_as_it_is(text: str) -> None:
    assert calls_of(text) == (text, [])


def test_arguments_that_are_text_already_stay() -> None:
    assert calls_of('<tool_call>{"name": "f", "arguments": "{}"}</tool_call>')[1][0]["arguments"] == "{}"
