"""All that learns in one run: a world, its engines and a learner. It consumes traffic, whoever makes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch

from simulator.lab.config import LearnConfig
from simulator.lab.learner import Learner, adam, sgd
from simulator.lab.methods import METHODS, Method
from simulator.lab.parts import Lesson, Speaker
from simulator.lab.pretraining import pretrain
from simulator.lab.tasks.every import task_of
from simulator.lab.traffic import Traffic


class Learned(NamedTuple):
    """What one update came to."""

    metrics: dict[str, float]
    rewards: Sequence[float]
    """Of each rollout, in the order of the traffic; NaN where it was left out, so that nobody knows."""
    action_tokens: Sequence[int]
    """That its small model said."""


@final
class Student:
    """Samples every update's rollouts by the versions that the traffic names, and learns from them.

    Args:
        config: the run; its pipeline is somebody else's affair.
        method: in place of the one that `config` names; it must suit the groups of the traffic.
    """

    def __init__(self, config: LearnConfig, method: Method | None = None) -> None:
        self.config = config
        self.task = task_of(config.world, config.pipeline.seed)
        self.learner = Learner(
            method or method_of(config),
            self.task.policy(),
            self.task.critic,
            learning_rate=config.learning_rate,
            optimizer={"adam": adam, "sgd": sgd}[config.optimizer],
        )
        self.sampler = self.task.sampler()
        self._taken: Speaker | None = None
        self.publish(0)
        if self.learner.critic is not None and config.value_pretraining_rollouts:
            pretrain(
                self.learner.critic,
                self.sampler,
                rollouts=config.value_pretraining_rollouts,
                batch_rollouts=config.pipeline.rollouts_per_update,
                bootstrap_truncated=config.value_pretraining_bootstrap,
            )

    def publish(self, version: int) -> None:
        """Engines hold the trainer's present weights from now on."""
        self.sampler.publish(version, self.learner.policy.snapshot())
        if version:
            self.learner.pushed()

    def sample(self, traffic: Traffic) -> Lesson:
        """What the engines of this traffic said."""
        distinct = self.config.distinct_prompts
        if distinct is not None:
            traffic = dataclasses.replace(traffic, prompt_ids=traffic.prompt_ids % distinct)
        return self.sampler.sample(traffic)

    def learn(self, traffic: Traffic) -> Learned:
        """One optimizer update."""
        if self.config.pipeline.updates_per_batch > 1 and traffic.index_in_batch == 0:
            self._taken = self.learner.policy.snapshot()
        old = self._taken if traffic.index_in_batch else None
        lesson = self.sample(traffic)
        kept = lesson.kept()
        metrics = self.learner.update(kept, old)
        batch = kept.batch
        lag = batch.lag(traffic.version).sum().item() / max(int(batch.action_mask.sum()), 1)
        metrics |= {"token_lag": lag} | self.task.measure(self.learner.policy, traffic.version + 1)
        rewards = batch.returns
        if lesson.left_out is not None:
            metrics["left_out_rollouts"] = float(lesson.left_out.sum())
            rewards = rewards.masked_fill(lesson.left_out, torch.nan)
        # What was left out was said all the same: tokens are counted before.
        return Learned(metrics, rewards.tolist(), lesson.batch.action_tokens.tolist())

    def relative_length(self, prompt_id: int) -> float:
        """Of a prompt's rollouts over the mean of all prompts."""
        distinct = self.config.distinct_prompts
        return self.task.relative_length(prompt_id if distinct is None else prompt_id % distinct)

    def state(self) -> dict[str, Any]:
        """All that a later update depends on; taken before the first update of a batch."""
        return {"learner": self.learner.state(), "sampler": self.sampler.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        self.learner.load_state(state["learner"])
        self.sampler.load_state(state["sampler"])


def method_of(config: LearnConfig) -> Method:
    """The method that a configuration names; the pipeline says how often its critic is trained.

    Raises:
        ValueError: a half-width of a band for an estimator that has none.
    """
    widths = {"eps_low": config.eps_low, "eps_high": config.eps_high}
    given = {name: width for name, width in widths.items() if width is not None}
    try:
        method = METHODS[config.estimator](**given)
    except TypeError:
        raise ValueError(f"{config.estimator} has no band of this kind, got {given}") from None
    recipe = method.estimator.critic
    if recipe is None:
        return method
    recipe = dataclasses.replace(
        recipe,
        learning_rate_ratio=config.critic_learning_rate_ratio,
        updates_per_policy_update=config.pipeline.critic_updates,
    )
    return dataclasses.replace(method, estimator=dataclasses.replace(method.estimator, critic=recipe))
