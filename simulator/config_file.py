"""Which fields does a configuration file set? TOML by hand, or the `config.json` of an earlier run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

Config = TypeVar("Config", bound=BaseModel)
_DEEPEST: Final = 20
"""Tables within tables: what reads fields goes down them, and would not come back from a thousand."""


def read_config(path: Path, default: Config) -> Config:
    """`default` with the fields that the file names.

    Raises:
        OSError, ValueError: it cannot be read, is no TOML or JSON, holds no fields, or impossible ones
            (pydantic's ValidationError is a ValueError).
    """
    return type(default).model_validate(merged(default.model_dump(), read_fields(path)))


def read_fields(path: Path) -> dict[str, Any]:
    """The fields that a file names.

    Raises:
        OSError, ValueError: it cannot be read, is no TOML or JSON, holds no fields, or one of them twice.
    """
    # Some editors begin a file with a byte order mark.
    text = path.read_text(encoding="utf-8-sig")
    given = json.loads(text, object_pairs_hook=_once) if path.suffix == ".json" else tomllib.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"must hold fields by name, not a {type(given).__name__}")
    level: list[Any] = [given]
    for _ in range(_DEEPEST):
        level = [inner for table in level for inner in _inner(table)]
    if level:
        raise ValueError(f"is nested more than {_DEEPEST} deep, and no field is")
    return given


def _inner(table: Any) -> Iterable[Any]:
    """Tables and lists in a table or list."""
    values = table.values() if isinstance(table, dict) else table
    return (value for value in values if isinstance(value, dict | list))


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless it has a name twice: its first value would be lost unseen."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return fields


def merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` over `base`, table by table; a table that names another kind replaces the old one whole."""
    whole = dict(base)
    for key, value in given.items():
        old = base.get(key)
        whole[key] = value
        if isinstance(old, dict) and isinstance(value, dict):
            kind = old.get("kind")
            whole[key] = merged(old, value) if value.get("kind", kind) == kind else value
    return whole
