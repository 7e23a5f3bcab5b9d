"""What does a controller hold of a trainer? A handle that asks, waits, and says why no answer comes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

from jaxtyping import Float, Int
from torch import Tensor

from algorithms.rollout import Batch
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.launch import ASSEMBLY, Assembly, environment, torchrun
from full_runs.trainer.message import Message, from_bytes, of_lesson, prompts_of, put, to_bytes
from full_runs.trainer.worker import CONFIG, STOP, answer_file, failure_file, pid_file, request_file
from full_runs.wire.outline import Outline
from full_runs.wire.send import Sent
from simulator.lab.parts import Lesson

LOG: Final = "log.txt"
OPENED: Final = "lines.json"
LOOPBACK: Final = "127.0.0.1"
POLL_S: Final = 0.005


class TrainerError(RuntimeError):
    """A rank ended; the message says which and why."""


@final
class TrainerClient:
    """Ranks, those of this host started with torchrun, asked through files in a folder.

    Args:
        folder: of the trainer alone; what an earlier one left there is removed. Other nodes share it, and
            start their ranks with `full_runs.trainer.join`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0
        self._ranks = self._near = 0
        self._asking = threading.Lock()
        """An engine that comes late is sent weights while others are trained on: one after the other."""

    def start(
        self,
        config: TrainerConfig,
        ranks: int,
        *,
        nodes: int = 1,
        rendezvous: str | None = None,
        gpus: tuple[int, ...] = (),
        cores: tuple[tuple[int, ...], ...] = (),
    ) -> Self:
        """Start so many processes; they are ready when the first request is answered.

        Args:
            config: of all of them.
            ranks: over all nodes.
            nodes: hosts that share them evenly; this one is the first.
            rendezvous: `HOST:PORT` of this host, where the others come.
            gpus: numbers of each node's GPUs, a rank each; none: processors.
            cores: of each rank, on one node of processors; none: anywhere.

        Raises:
            ValueError: it has been started, no rank is asked for, or nodes cannot share them or do not meet.
        """
        if self._process is not None or ranks < 1:
            raise ValueError(
                f"ranks is {ranks}, and the trainer has {'' if self._process else 'not '}started"
            )
        if ranks % nodes or (nodes > 1) is not (rendezvous is not None):
            raise ValueError(f"ranks is {ranks}, nodes {nodes} and rendezvous {rendezvous}")
        assembly = Assembly(
            id=uuid.uuid4().hex,
            nodes=nodes,
            ranks_a_node=ranks // nodes,
            rendezvous=rendezvous,
            gpus=gpus,
            cores=cores,
        )
        variables = environment(assembly, config, os.environ)
        if self.folder.exists():
            shutil.rmtree(self.folder)
        # Whoever can write here tells the trainer what to do.
        self.folder.mkdir(parents=True, mode=0o700)
        put(self.folder / CONFIG, config.model_dump_json(indent=1).encode())
        # Last: other nodes start when they find it.
        put(self.folder / ASSEMBLY, assembly.model_dump_json(indent=1).encode())
        with (self.folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(
                torchrun(assembly, 0, self.folder),
                # The ranks inherit this pipe. It closes with this process, however that ends; they notice.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
            )
        self._asked, self._ranks, self._near = 0, ranks, ranks // nodes
        return self

    def train(self, batch: Batch, prompts: Int[Tensor, "B P"] | Sequence[Sequence[int]]) -> dict[str, float]:
        """One optimizer update on whole groups; what it saw, by the lab's names.

        Args:
            batch: its token ids are `PADDING` where there is no token, as `message.batch_of` makes them.
            prompts: token ids; as a tensor, padded with `PADDING` on the left.

        Raises:
            TrainerError: a rank ended. So does every other request.
        """
        answer = self._ask({"command": "train"}, _lesson(batch, prompts))
        metrics: dict[str, float] = answer.content["metrics"]
        return metrics

    def log_probs(
        self, batch: Batch, prompts: Int[Tensor, "B P"] | Sequence[Sequence[int]]
    ) -> Float[Tensor, "B T"]:
        """Of the batch's tokens under the present weights: `old_log_probs` of a batch for several updates."""
        return self._ask({"command": "log_probs"}, _lesson(batch, prompts)).tensors["log_probs"]

    def save_weights(self, folder: Path) -> None:
        """Write the policy's weights as an engine loads them; the folder appears whole."""
        self._ask({"command": "save_weights", "folder": str(folder.absolute())})

    def weights(self) -> list[Outline]:
        """All tensors that `send_weights` would send, in their order; nothing is gathered."""
        said = self._ask({"command": "weights"}).content["outlines"]
        return [Outline(name, dtype, tuple(shape)) for name, dtype, shape in said]

    def send_weights(
        self,
        workers: Sequence[int],
        address: str,
        timeout_s: float,
        opened: Callable[[Sequence[Mapping[str, Any]]], None],
    ) -> Sent:
        """Send the policy's weights to engines, as it is when earlier requests are done.

        Args:
            workers: processes of each engine.
            address: of this host, where engines join.
            timeout_s: of one tensor, and of joining; who takes longer is given up.
            opened: told once, in this thread, what each engine needs to join.
        """
        file = self.folder / OPENED
        file.unlink(missing_ok=True)
        request: dict[str, Any] = {"command": "send_weights", "workers": list(workers), "address": address}
        request |= {"timeout_s": timeout_s, "opened": str(file.absolute())}

        def look() -> None:
            if file.exists():
                told = json.loads(file.read_bytes())
                file.unlink()
                opened(told)

        said = self._ask(request, meanwhile=look).content
        failed = {int(number): why for number, why in said["failed"].items()}
        return Sent(version=said["version"], sent=said["sent"], failed=failed)

    def save_checkpoint(self, folder: Path) -> None:
        """Write all that a later update depends on; the folder appears whole."""
        self._ask({"command": "save_checkpoint", "folder": str(folder.absolute())})

    def resume(self, folder: Path) -> int:
        """Go back to a checkpoint, written by any number of ranks; the number of updates done then."""
        answer = self._ask({"command": "resume", "folder": str(folder.absolute())})
        return int(answer.content["updates"])

    def pushed(self) -> int:
        """Engines hold the present weights from now on; their version, the number of updates done."""
        return int(self._ask({"command": "pushed"}).content["updates"])

    def process_ids(self) -> list[int]:
        """Of the ranks that have started on this host."""
        files = [pid_file(self.folder, rank) for rank in range(self._near)]
        return [int(file.read_text()) for file in files if file.exists()]

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """End all ranks, by request and else by force; nothing happens if there are none."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            data = to_bytes(Message({"command": STOP}, {}))
            put(request_file(self.folder, self._asked), data)
        assert process.stdin is not None
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            # torchrun ends its ranks on this signal.
            process.terminate()
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        finally:
            process.stdin.close()

    def _ask(
        self,
        content: dict[str, Any],
        lesson: Lesson | None = None,
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Message:
        with self._asking:
            return self._answer(content, lesson, meanwhile)

    def _answer(
        self, content: dict[str, Any], lesson: Lesson | None, meanwhile: Callable[[], None]
    ) -> Message:
        process = self._process
        if process is None:
            raise TrainerError("the trainer is not running: it was never started, has failed or was stopped")
        tensors = {} if lesson is None else of_lesson(lesson)
        put(request_file(self.folder, self._asked), to_bytes(Message(content, tensors)))
        file = answer_file(self.folder, self._asked)
        while not file.exists():
            if process.poll() is not None:
                self._end(process)
            meanwhile()
            time.sleep(POLL_S)
        answer = from_bytes(file.read_bytes())
        file.unlink()
        self._asked += 1
        return answer

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """All ranks have ended, or their parent has and they are ended now.

        Raises:
            TrainerError: always.
        """
        self._process = None
        assert process.stdin is not None
        process.stdin.close()
        for pid in self.process_ids() if process.returncode < 0 else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        files = [failure_file(self.folder, rank) for rank in range(self._ranks)]
        reasons = [
            f"rank {rank}: {file.read_text().splitlines()[0]}"
            for rank, file in enumerate(files)
            if file.exists()
        ]
        log = (self.folder / LOG).read_text(errors="replace")
        _, _, cause = log.rpartition("Root Cause")
        seen = " ".join(cause.split())[:300] if cause != log else log[-300:]
        raise TrainerError(
            f"the trainer ended with status {process.returncode}; "
            f"{'; '.join(reasons) or 'no rank said why'}; torchrun: {seen} (all of it in {self.folder / LOG})"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _lesson(batch: Batch, prompts: Int[Tensor, "B P"] | Sequence[Sequence[int]]) -> Lesson:
    return Lesson(prompts=prompts if isinstance(prompts, Tensor) else prompts_of(prompts), batch=batch)
