"""Which fields does a configuration file set? TOML by hand, or the `config.json` of an earlier run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

Config = TypeVar("Config", bound=BaseModel)


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
        OSError, ValueError: it cannot be read, is no TOML or JSON, or holds no fields.
    """
    text = path.read_text(encoding="utf-8")
    given = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"must hold fields by name, not a {type(given).__name__}")
    return given


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
