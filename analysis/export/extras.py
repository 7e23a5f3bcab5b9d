"""A package that not everybody needs is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any


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
        raise ValueError(f"--to {name} needs the extra {name}: pip install 'policylag[{name}]'") from None
