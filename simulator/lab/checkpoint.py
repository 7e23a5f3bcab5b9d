"""How does a killed run go on, bit for bit? From its learner's state; the schedule is made again.

Nothing that a pipeline does depends on what is said in it, so its state need not be kept: the same seed makes
the same schedule once more, in seconds, while the updates that were learned from before are recalled. All
random numbers are keyed by rollout and prompt, so no stream has a state either.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch

from simulator.lab.bridge import LearningWorkload, traffic_of
from simulator.lab.student import Learned, Student
from simulator.lab.traffic import Traffic
from simulator.pipeline.views import Update
from simulator.pipeline.workload import UpdateResult
from simulator.runfolder import content_digest

FILE = "checkpoint.pt"


@final
@dataclass(slots=True, kw_only=True)
class Checkpoints:
    """Where a run's learner is kept, and how often.

    Args:
        folder: holds one file, replaced in one step.
        every_updates: at least so many updates lie between two.

    Raises:
        ValueError: `every_updates` below one.
    """

    folder: Path
    every_updates: int = 100
    done: list[Learned] = field(default_factory=list)
    """What the updates so far came to."""

    def __post_init__(self) -> None:
        if self.every_updates < 1:
            raise ValueError(f"every_updates must be at least 1, got {self.every_updates}")

    def restore(self, student: Student) -> int:
        """Put the student where the kept run was, if there is one: the number of updates done.

        Raises:
            ValueError: the file belongs to another configuration or to other code, or it is broken.
        """
        file = self.folder / FILE
        if not file.is_file():
            return 0
        try:
            kept = torch.load(file, weights_only=True)
            owner = kept["owner"]
        except Exception as broken:
            raise ValueError(f"{file} is no checkpoint: {' '.join(str(broken).split())[:200]}") from None
        if owner != content_digest(student.config):
            raise ValueError(
                f"{file} belongs to another configuration, or to another version of this program"
            )
        student.load_state(kept["student"])
        self.done = [Learned(*each) for each in kept["done"]]
        return len(self.done)

    def before(self, student: Student, traffic: Traffic) -> None:
        """Keep the student if it is time to; called before each update."""
        due = traffic.version > 0 and traffic.version % self.every_updates == 0
        if due and traffic.index_in_batch == 0:
            self.save(student)

    def save(self, student: Student) -> None:
        """Write what a later process needs; whole, or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".{FILE}.{os.getpid()}.part"
        content: dict[str, Any] = {
            "owner": content_digest(student.config),
            "student": student.state(),
            "done": [tuple(each) for each in self.done],
        }
        try:
            torch.save(content, part)
            part.replace(self.folder / FILE)
        finally:
            part.unlink(missing_ok=True)

    def remove(self) -> None:
        """The run is done, and its log is safe."""
        (self.folder / FILE).unlink(missing_ok=True)


@final
class CheckpointedWorkload:
    """Recalls what was learned before this process began, and keeps what is learned in it."""

    def __init__(self, student: Student, checkpoints: Checkpoints) -> None:
        self._fresh = LearningWorkload(student)
        self._student = student
        self._checkpoints = checkpoints
        self._first = checkpoints.restore(student)
        self.length_tokens: Callable[[int, int], int] = self._fresh.length_tokens
        self.lengths_in_order = self._fresh.lengths_in_order

    def publish(self, version: int, /) -> None:
        # The restored engines hold these already.
        if version > self._first or self._first == 0:
            self._fresh.publish(version)

    def train(self, update: Update, /) -> UpdateResult:
        if update.version < self._first:
            learned = self._checkpoints.done[update.version]
        else:
            traffic = traffic_of(update)
            self._checkpoints.before(self._student, traffic)
            learned = self._student.learn(traffic)
            self._checkpoints.done.append(learned)
        return UpdateResult(metrics=learned.metrics, rewards=learned.rewards)
