"""How does a process end when its parent ends? `python -m full_runs.engine.tether PARENT COMMAND ...`.

An engine whose controller was killed would hold memory and a port for ever. Linux can tie a process to its
parent; elsewhere the command runs untied.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main(parent: int, command: list[str]) -> None:
    """Become `command`; end at once if `parent` has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
