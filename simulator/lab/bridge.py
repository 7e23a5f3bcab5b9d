"""A small model as a workload: it samples under the versions that the pipeline dictates, and learns.

Lengths come from the length law, longer for the prompts that a world calls long, so the schedule is that
of production traffic; what is said comes from the model. A rollout of L simulated tokens carries T said
ones, the t-th sampled by the weights that its engine held at simulated token floor(t L / T).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import final

import numpy as np

from simulator.lab.student import Student
from simulator.lab.traffic import Part, Traffic
from simulator.pipeline.pipeline import drawn_lengths
from simulator.pipeline.views import Update
from simulator.pipeline.workload import UpdateResult


@final
class LearningWorkload:
    """What the pipeline asks of a rollout's content: how long it is, and what an update does with it."""

    def __init__(self, student: Student) -> None:
        self.student = student
        self._drawn = drawn_lengths(student.config.pipeline)
        self.publish: Callable[[int], None] = student.publish

    def length_tokens(self, prompt_id: int, member: int, /) -> int:
        return self._scaled(self._drawn.length_tokens(prompt_id, member), prompt_id)

    def lengths_in_order(self) -> Iterator[int]:
        """The same, prompt by prompt and member by member."""
        size = self.student.config.pipeline.group_size
        for place, tokens in zip(count(), self._drawn.in_order()):
            yield self._scaled(tokens, place // size)

    def train(self, update: Update, /) -> UpdateResult:
        """Sample the rollouts of this update under their versions, and learn from them."""
        learned = self.student.learn(traffic_of(update))
        return UpdateResult(metrics=learned.metrics, rewards=learned.rewards)

    def _scaled(self, tokens: int, prompt_id: int) -> int:
        relative = self.student.relative_length(prompt_id)
        return tokens if relative == 1.0 else max(1, round(tokens * relative))


def traffic_of(update: Update) -> Traffic:
    """An update of the pipeline, as the learner sees it."""
    rollouts = list(update.rollouts)
    return Traffic(
        version=update.version,
        index_in_batch=update.index_in_batch,
        rollout_ids=np.array([r.rollout_id for r in rollouts], np.int64),
        prompt_ids=np.array([r.prompt_id for r in rollouts], np.int64),
        group_ids=np.array([r.group_id for r in rollouts], np.int64),
        length_tokens=[r.action_tokens for r in rollouts],
        parts=[[Part(s.version, s.start_token) for s in r.segments] for r in rollouts],
    )
