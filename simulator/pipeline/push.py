"""New weights reach the engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import simpy

from simulator.pipeline.engine import Process
from simulator.pipeline.instant import PUBLISH, Turn
from simulator.pipeline.journal import Journal
from simulator.pipeline.weights import Weights
from simulator.rules.counts import Counts
from simulator.rules.on_sync import MayPublish


@final
class Push:
    """From the trainer to every engine at once, when the rule allows it; the trainer waits meanwhile."""

    def __init__(
        self,
        env: simpy.Environment,
        *,
        push_s: float,
        may_publish: MayPublish,
        counts: Callable[[], Counts],
        weights: Weights,
        journal: Journal,
        published: Callable[[], None],
    ) -> None:
        self.env = env
        self.push_s = push_s
        self.may_publish = may_publish
        self.counts = counts
        self.weights = weights
        self.journal = journal
        self.published = published
        self._rollout_finished: simpy.Event | None = None

    def rollout_finished(self) -> None:
        """Wake a push that waits for engines to drain."""
        if self._rollout_finished is not None and not self._rollout_finished.triggered:
            self._rollout_finished.succeed()

    def run(self, version: int) -> Process:
        """Wait for the rule, push, publish."""
        env = self.env
        waits_since_s = env.now
        while not self.may_publish(self.counts()):
            self._rollout_finished = simpy.Event(env)
            yield self._rollout_finished
        self.journal.trainer("idle", "engines_busy", waits_since_s, env.now)
        push_starts_s = env.now
        yield env.timeout(self.push_s)
        yield Turn(env, PUBLISH)
        self.journal.trainer("busy", "push", push_starts_s, env.now)
        self.weights.publish(version, env.now)
        self.published()
