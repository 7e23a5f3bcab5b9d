"""What a test of engines and trainers leaves running is a fault of what it tests."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator

import pytest

_PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 300.0


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a module that starts engines, no process of it is there, whoever its parent was."""
    starts_engines = any(request.node.iter_markers("full"))
    if not starts_engines or importlib.util.find_spec("psutil") is None or sys.platform != "linux":
        yield
        return
    import psutil

    # Whoever loses its parent becomes ours, and is seen.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    me = psutil.Process()
    before = set(me.children(recursive=True))
    yield
    left = [
        child
        for child in set(me.children(recursive=True)) - before
        if "resource_tracker" not in command(child)
    ]
    _, alive = psutil.wait_procs(left, timeout=PATIENCE_S)
    said = [command(child) for child in alive]
    for child in alive:
        child.kill()
    assert not said, f"still running: {said}"


def command(process: object) -> str:
    """Its command line; empty if it has ended."""
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
