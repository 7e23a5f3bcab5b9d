"""One rank of a trainer: `torchrun ... -m full_runs.trainer.worker --folder DIR`.

Rank 0 finds the controller's requests in the folder and tells the others; all of them do what is asked, and
rank 0 answers. What goes wrong on a rank is written down and ends it; torchrun then ends the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import select
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

import torch
from torch import distributed as dist

from full_runs.trainer import checkpoint
from full_runs.trainer.bell import ring
from full_runs.trainer.build import built
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.message import Message, from_bytes, put, to_bytes, to_lesson
from full_runs.trainer.ranks import Ranks, joined
from full_runs.trainer.send import send_weights
from full_runs.trainer.update import Trainer
from full_runs.trainer.weights import outlines, save_weights

CONFIG: Final = "config.json"
STOP: Final = "stop"
# Nothing asked for so long: rank 0 says so, or the others would take it for dead.
IDLE_S: Final = 1.0
POLL_S: Final = 0.002


def request_file(folder: Path, number: int) -> Path:
    """Where the controller's n-th request is."""
    return folder / f"request-{number}.safetensors"


def answer_file(folder: Path, number: int) -> Path:
    """Where the answer to it is."""
    return folder / f"answer-{number}.safetensors"


def answer_bell(folder: Path) -> Path:
    """Where rank 0 rings when an answer is there."""
    return folder / "answered"


def failure_file(folder: Path, rank: int) -> Path:
    """Where a rank says why it ended."""
    return folder / f"failed-rank-{rank}.txt"


def pid_file(folder: Path, rank: int) -> Path:
    """Where a rank says which process it is."""
    return folder / f"rank-{rank}.pid"


def run(folder: Path, *, watched: bool) -> None:
    """Serve requests until told to stop.

    Args:
        watched: standard input is a pipe that the controller holds: its end is the controller's.
    """
    config = TrainerConfig.model_validate_json((folder / CONFIG).read_text())
    ranks = joined(device=config.device, timeout_s=config.collective_timeout_s)
    put(pid_file(folder, ranks.rank), str(os.getpid()).encode())
    trainer = built(config, ranks)
    number = 0
    while True:
        data = _next(request_file(folder, number), watched=watched) if ranks.rank == 0 else b""
        data = ranks.told(data)
        if not data:
            continue
        request = from_bytes(data)
        if request.content["command"] == STOP:
            break
        answer = _done(trainer, config, request, ranks)
        if ranks.rank == 0:
            request_file(folder, number).unlink()
            put(answer_file(folder, number), to_bytes(answer))
            ring(answer_bell(folder))
        number += 1
    dist.destroy_process_group()


def _next(file: Path, *, watched: bool) -> bytes:
    """The next request, or nothing if there is none for a while."""
    until_s, wait_s = time.monotonic() + IDLE_S, 0.0
    while True:
        # First: a request that is not its controller's is for ranks that were started since.
        if watched and select.select([sys.stdin], [], [], wait_s)[0] and not os.read(0, 4096):
            raise RuntimeError("the controller is gone")
        if file.exists():
            return file.read_bytes()
        if (left_s := until_s - time.monotonic()) <= 0:
            return b""
        if watched:
            wait_s = left_s  # a byte wakes it
        else:
            time.sleep(POLL_S)


def _done(trainer: Trainer, config: TrainerConfig, request: Message, ranks: Ranks) -> Message:
    """Do what is asked and say what came of it; the same on every rank."""
    content = request.content
    command = content["command"]
    if command == "train":
        return Message({"metrics": trainer.update(to_lesson(request.tensors, ranks.device))}, {})
    if command == "log_probs":
        lesson = to_lesson(request.tensors, ranks.device)
        return Message({}, {"log_probs": trainer.log_probs(lesson)})
    dtype: torch.dtype = getattr(torch, config.precision)
    if command == "weights":
        return Message({"outlines": outlines(trainer.policy, dtype)}, {})
    if command == "send_weights":
        told = {name: content[name] for name in ("workers", "address", "timeout_s")}
        sent = send_weights(trainer, ranks, **told, opened=Path(content["opened"]), dtype=dtype)
        return Message(dataclasses.asdict(sent), {})
    if command == "save_weights":
        save_weights(trainer.policy, Path(content["folder"]), ranks, dtype=dtype)
    elif command == "save_checkpoint":
        checkpoint.save(trainer, Path(content["folder"]), owner=_owner(config))
    elif command == "resume":
        checkpoint.load(trainer, Path(content["folder"]), owner=_owner(config))
    elif command == "pushed":
        trainer.pushed()
    else:
        raise ValueError(f"unknown command {command!r}")
    return Message({"updates": trainer.updates}, {})


def _owner(config: TrainerConfig) -> dict[str, Any]:
    """What must be equal for a checkpoint to make sense; ranks, layout and precision may differ."""
    return config.model_dump(mode="json", include={"estimator", "eps_low", "eps_high", "critic", "optimizer"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--watched", action="store_true")
    told = parser.parse_args()
    try:
        run(told.folder, watched=told.watched)
    except BaseException as failed:
        reason = f"{type(failed).__name__}: {failed}\n\n{traceback.format_exc()}"
        put(failure_file(told.folder, int(os.environ.get("RANK", "0"))), reason.encode())
        raise


if __name__ == "__main__":
    main()
