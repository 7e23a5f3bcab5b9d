"""What does a controller hold of a trainer? A handle that asks, waits, and says why no answer comes."""

from __future__ import annotations

import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

from jaxtyping import Float, Int
from torch import Tensor

from algorithms.rollout import Batch
from full_runs.trainer.bell import POLL_S
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.launch import ASSEMBLY, Assembly, environment
from full_runs.trainer.message import Message, from_bytes, of_lesson, prompts_of, put, to_bytes
from full_runs.trainer.processes import Processes, TrainerError
from full_runs.trainer.worker import CONFIG, STOP, answer_file, request_file
from full_runs.wire.outline import Outline
from full_runs.wire.send import Sent
from simulator.lab.parts import Lesson

OPENED: Final = "lines.json"
LOOPBACK: Final = "127.0.0.1"
LOOK_S: Final = 0.1
"""Whether ranks have ended is asked so often."""
NOTHING: Final[Mapping[str, Tensor]] = {}


@final
class TrainerClient:
    """Ranks, those of this host started with torchrun, asked through files in a folder.

    Args:
        folder: of the trainer alone; what an earlier one left there is removed. Other nodes share it, and
            start their ranks with `full_runs.trainer.join`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: Processes | None = None
        self._asked = 0
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
        if self._processes is not None or ranks < 1:
            raise ValueError(
                f"ranks is {ranks}, and the trainer has {'' if self._processes else 'not '}started"
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
        self._processes, self._asked = Processes(self.folder, assembly, variables), 0
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
        return [] if self._processes is None else self._processes.ids()

    def stop(self, *, timeout_s: float = 30.0) -> None:
        """End all ranks, by request and else by force; nothing happens if there are none."""
        processes, self._processes = self._processes, None
        if processes is not None:
            processes.stop(lambda: self._put(processes, {"command": STOP}), timeout_s)

    def _ask(
        self,
        content: dict[str, Any],
        lesson: Lesson | None = None,
        *,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        with self._asking:
            return self._answer(content, lesson, meanwhile)

    def _answer(
        self, content: dict[str, Any], lesson: Lesson | None, meanwhile: Callable[[], None] | None
    ) -> Message:
        processes = self._processes
        if processes is None:
            raise TrainerError("the trainer is not running: it was never started, has failed or was stopped")
        self._put(processes, content, {} if lesson is None else of_lesson(lesson))
        file = answer_file(self.folder, self._asked)
        while not file.exists():
            if processes.ended():
                self._processes = None
                processes.bury()
            if meanwhile is not None:
                meanwhile()
            processes.wait(LOOK_S if meanwhile is None else POLL_S)
        answer = from_bytes(file.read_bytes())
        file.unlink()
        self._asked += 1
        return answer

    def _put(
        self, processes: Processes, content: dict[str, Any], tensors: Mapping[str, Tensor] = NOTHING
    ) -> None:
        put(request_file(self.folder, self._asked), to_bytes(Message(content, dict(tensors))))
        processes.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _lesson(batch: Batch, prompts: Int[Tensor, "B P"] | Sequence[Sequence[int]]) -> Lesson:
    return Lesson(prompts=prompts if isinstance(prompts, Tensor) else prompts_of(prompts), batch=batch)
