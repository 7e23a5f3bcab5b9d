"""Which processes is a trainer on this host? How are they started and stopped, and why did they end?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn, final

from full_runs.trainer.bell import Bell
from full_runs.trainer.launch import Assembly, torchrun
from full_runs.trainer.worker import answer_bell, failure_file, pid_file

LOG: Final = "log.txt"


class TrainerError(RuntimeError):
    """A rank ended; the message says which and why."""


@final
class Processes:
    """torchrun and this host's ranks; started here.

    Args:
        folder: of the trainer; what they print goes there.
        assembly: who starts together.
        variables: their environment.
    """

    def __init__(self, folder: Path, assembly: Assembly, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._bell = Bell(answer_bell(folder))
        self._near = assembly.ranks_a_node
        self._ranks = assembly.nodes * assembly.ranks_a_node
        with (folder / LOG).open("wb") as log:
            self.torchrun = subprocess.Popen(
                torchrun(assembly, 0, folder),
                # The ranks inherit this pipe. It closes with this process, however that ends; they notice.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
            )

    def wake(self) -> None:
        """Let the first rank look for a request."""
        assert self.torchrun.stdin is not None
        # They ended, or are being stopped by another thread: whoever waits for the answer hears of it.
        with contextlib.suppress(BrokenPipeError, ValueError):
            os.write(self.torchrun.stdin.fileno(), b"\n")

    def wait(self, most_s: float) -> None:
        """Until the first rank has an answer, or so long."""
        self._bell.wait(most_s)

    def ended(self) -> bool:
        """All ranks of this host have, or their parent."""
        return self.torchrun.poll() is not None

    def ids(self) -> list[int]:
        """Of the ranks that have started."""
        files = [pid_file(self._folder, rank) for rank in range(self._near)]
        return [int(file.read_text()) for file in files if file.exists()]

    def stop(self, ask: Callable[[], None], timeout_s: float) -> None:
        """End them, by request and else by force.

        Args:
            ask: makes the request.
        """
        assert self.torchrun.stdin is not None
        if not self.ended():
            ask()
        try:
            self.torchrun.wait(timeout_s)
        except subprocess.TimeoutExpired:
            # torchrun ends its ranks on this signal.
            self.torchrun.terminate()
            try:
                self.torchrun.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.torchrun.kill()
                self.torchrun.wait()
        finally:
            self.torchrun.stdin.close()
            self._bell.remove()

    def bury(self) -> NoReturn:
        """All ranks have ended, or their parent has and they are ended now.

        Raises:
            TrainerError: always.
        """
        assert self.torchrun.stdin is not None
        self.torchrun.stdin.close()
        self._bell.remove()
        for pid in self.ids() if self.torchrun.returncode < 0 else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        files = [failure_file(self._folder, rank) for rank in range(self._ranks)]
        reasons = [
            f"rank {rank}: {file.read_text().splitlines()[0]}"
            for rank, file in enumerate(files)
            if file.exists()
        ]
        log = (self._folder / LOG).read_text(errors="replace")
        _, _, cause = log.rpartition("Root Cause")
        seen = " ".join(cause.split())[:300] if cause != log else log[-300:]
        raise TrainerError(
            f"the trainer ended with status {self.torchrun.returncode}; "
            f"{'; '.join(reasons) or 'no rank said why'}; torchrun: {seen} "
            f"(all of it in {self._folder / LOG})"
        )
