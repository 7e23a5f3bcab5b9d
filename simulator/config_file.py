"""Which fields does a configuration file set? TOML by hand, or the `config.json` of an earlier run."""

from __future__ import annotations

import json
import tomllib
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
    text = path.read_text(encoding="utf-8")
    given = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"must hold fields by name, not a {type(given).__name__}")
    return type(default).model_validate(_merged(default.model_dump(), given))


def _merged(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`given` over `base`, table by table; a table that names another kind replaces the old one whole."""
    merged = dict(base)
    for key, value in given.items():
        old = base.get(key)
        merged[key] = value
        if isinstance(old, dict) and isinstance(value, dict):
            kind = old.get("kind")
            merged[key] = _merged(old, value) if value.get("kind", kind) == kind else value
    return merged
