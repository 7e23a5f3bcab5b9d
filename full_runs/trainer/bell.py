"""How does one process wake another that waits for a file? With a byte in a named pipe.

The file is what counts: whoever waits looks at it after each ring and now and then without one, so a ring
that is lost costs a moment and no message. One host; where a folder holds no pipes, it is looked at often.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
import weakref
from pathlib import Path
from typing import Final, final

POLL_S: Final = 0.005
"""Without a pipe, a file is found so late at the most."""


@final
class Bell:
    """The end that waits. It is open as long as a thread holds it.

    Args:
        path: where the pipe is made; nothing is there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hears: int | None = None
        # Not `select`, which knows no number beyond 1023: a controller may hold more connections.
        self._ready = select.poll()
        with contextlib.suppress(OSError):
            os.mkfifo(path, mode=0o600)
            hears = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            weakref.finalize(self, os.close, hears)
            # An end to write to, never used: without one the pipe would look closed after every ring.
            weakref.finalize(self, os.close, os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            self._ready.register(hears, select.POLLIN)
            self._hears = hears

    def wait(self, most_s: float) -> None:
        """Until it rings, or so long."""
        if self._hears is None:
            time.sleep(min(most_s, POLL_S))
        elif self._ready.poll(1000 * most_s):
            os.read(self._hears, 4096)

    def remove(self) -> None:
        """Nobody rings any more. Left in a folder, it could not be copied with it."""
        self._path.unlink(missing_ok=True)


def ring(path: Path) -> None:
    """Wake who waits at this pipe; nothing happens if nobody does."""
    with contextlib.suppress(OSError):
        end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(end, b"\n")
        finally:
            os.close(end)
