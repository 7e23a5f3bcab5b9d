"""A package that not everybody needs is imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def must_be_there(package: str, name: str) -> None:
    """Refuse early, without an import: trackio reads its folder when it is imported.

    Raises:
        ValueError: the package is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise ValueError(_missing(name))


def extra(module: str, name: str) -> Any:
    """A module of an optional package.

    Args:
        name: of the extra.

    Raises:
        ValueError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(_missing(name)) from None


def _missing(name: str) -> str:
    return f"{name} needs the extra {name}: pip install 'policylag[{name}]'"
