"""A small model as a workload: it samples under the versions that the pipeline dictates, and learns.

Lengths come from the length law, so the schedule is that of production traffic; what is said comes from
the model. A rollout of L simulated tokens carries T answer tokens, the t-th sampled by the weights that
its engine held at simulated token floor(t L / T).
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from algorithms.estimator import Estimator
from simulator.lab.arms import ESTIMATORS
from simulator.lab.config import LearnConfig
from simulator.lab.learner import Learner
from simulator.lab.modular_addition import ModularAddition, answered
from simulator.lab.networks import LogProbTable
from simulator.lab.snapshots import Snapshots
from simulator.pipeline.pipeline import drawn_lengths
from simulator.pipeline.views import Update
from simulator.pipeline.weights import Segment
from simulator.pipeline.workload import UpdateResult


def token_versions(segments: Sequence[Segment], action_tokens: int, answers: int) -> list[int]:
    """Version that sampled each of `answers` tokens, spread evenly over a rollout.

    Args:
        segments: simulated tokens by version, in order.
        action_tokens: simulated length L of the rollout.
        answers: T.
    """
    starts = [segment.start_token for segment in segments]
    return [segments[bisect_right(starts, t * action_tokens // answers) - 1].version for t in range(answers)]


@final
class LearningWorkload:
    """What the pipeline asks of a rollout's content: how long it is, and what an update does with it.

    Args:
        config: the run.
        estimator: in place of the one that `config` names; it must suit the pipeline's groups.
    """

    def __init__(self, config: LearnConfig, estimator: Estimator | None = None) -> None:
        pipeline = config.pipeline
        self.length_tokens = drawn_lengths(pipeline).length_tokens
        self.learner = Learner(
            estimator or estimator_of(config),
            modulus=config.modulus,
            hidden=config.hidden,
            learning_rate=config.learning_rate,
            seed=pipeline.seed,
        )
        self._world = ModularAddition(modulus=config.modulus, questions=config.questions, seed=pipeline.seed)
        self._snapshots = Snapshots()
        self._taken: LogProbTable = self.learner.policy.snapshot()
        self.publish(0)

    def publish(self, version: int, /) -> None:
        """Engines hold the trainer's present weights from now on."""
        self._snapshots.publish(version, self.learner.policy.snapshot())

    def train(self, update: Update, /) -> UpdateResult:
        """Sample the rollouts of this update under their versions, and learn from them."""
        if update.index_in_batch == 0:
            self._taken = self.learner.policy.snapshot()
        rollouts = update.rollouts
        questions = self._world.prompts(np.array([r.prompt_id for r in rollouts]))
        uniforms = self._world.uniforms(np.array([r.rollout_id for r in rollouts]))
        versions = self._versions(update)
        sampled = self._snapshots.sample(questions, versions, uniforms)
        groups = torch.tensor([r.group_id for r in rollouts])
        batch = answered(questions, sampled, versions, groups, modulus=self._world.modulus)
        metrics = self.learner.update(questions, batch, self._taken)
        token_lag = batch.lag(update.version).to(torch.float32).mean().item()
        return UpdateResult(metrics=metrics | {"token_lag": token_lag}, rewards=batch.returns.tolist())

    def _versions(self, update: Update) -> Int[Tensor, "B T"]:
        answers = self._world.questions
        return torch.tensor([token_versions(r.segments, r.action_tokens, answers) for r in update.rollouts])


def estimator_of(config: LearnConfig) -> Estimator:
    """The estimator that a configuration names; the pipeline says how often its critic is trained."""
    estimator = ESTIMATORS[config.estimator]()
    if estimator.critic is None:
        return estimator
    recipe = dataclasses.replace(
        estimator.critic,
        learning_rate_ratio=config.critic_learning_rate_ratio,
        updates_per_policy_update=config.pipeline.critic_updates,
    )
    return dataclasses.replace(estimator, critic=recipe)
