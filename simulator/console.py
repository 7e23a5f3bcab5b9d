"""How does a command meet the terminal, and what does its exit status say?

Loads nothing but the standard library, so that `policylag --help` stays quick.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable


def prepare_streams() -> None:
    """A terminal without UTF-8 still gets its answer; a closed stream gets none."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for as long as the process runs
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = lambda message, *_, **__: print(f"policylag: {message}", file=sys.stderr)


def exit_status(command: Callable[[list[str]], int], words: list[str]) -> int:
    """Run a subcommand; where it ends badly, one line says why.

    Returns:
        0 done, 1 something failed, 2 bad input, 130 interrupted.
    """
    from simulator.command_line import BadInputError
    from simulator.stalled import StalledError

    try:
        status = command(words)
        sys.stdout.flush()
        return status
    except BadInputError as bad:
        print(f"policylag {bad}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader (head, less) has gone. Python would complain once more when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, StalledError) as failed:  # a full disk; a run that waits for ever
        print(f"policylag: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("policylag: interrupted", file=sys.stderr)
        return 130
