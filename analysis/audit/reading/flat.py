"""A nested record made flat: `{"a": {"b": 1}}` is a/b, and what verl wraps in `data` is bare."""

from __future__ import annotations

from typing import Final

from analysis.audit.reading.lines import Record

_DEPTH: Final = 4
_WRAPPER: Final = "data"


def flat(record: Record) -> dict[str, object]:
    """Names joined by a slash."""
    found: dict[str, object] = {}
    _add(found, "", record, 0)
    return found


def _add(found: dict[str, object], prefix: str, record: Record, depth: int) -> None:
    for name, value in record.items():
        if isinstance(value, dict) and depth < _DEPTH:
            inner = prefix if depth == 0 and name == _WRAPPER else f"{prefix}{name}/"
            _add(found, inner, value, depth + 1)
        else:
            found[f"{prefix}{name}"] = value
