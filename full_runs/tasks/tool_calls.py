"""Which tools does a turn call? Only those in Hermes' words, as Qwen's chat templates ask for them.

`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number of times. *Choice*: what is written
otherwise is text; the environment then sees a turn that calls nothing.

References:
    https://huggingface.co/Qwen/Qwen3-8B/blob/main/tokenizer_config.json (its chat template)
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_CALL: Final = re.compile(r"<tool_call>((?:(?!<tool_call>).)*?)</tool_call>", re.DOTALL)


def calls_of(said: str) -> tuple[str, list[dict[str, str]]]:
    """The text of a turn, and its calls: id, name, arguments as JSON."""
    calls: list[dict[str, str]] = []

    def taken(found: re.Match[str]) -> str:
        if (call := _call(found[1])) is None:
            return found[0]
        calls.append({"id": f"call-{len(calls)}", **call})
        return ""

    text = _CALL.sub(taken, said)
    return (text.strip() if calls else text), calls


def _call(words: str) -> dict[str, str] | None:
    try:
        read: Any = json.loads(words)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not isinstance(read.get("name"), str):
        return None
    arguments = read.get("arguments", {})
    return {
        "name": read["name"],
        "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
    }
