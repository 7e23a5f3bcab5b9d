"""Small learners and their rollouts, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from algorithms.estimator import Estimator
from simulator.config import PipelineConfig
from simulator.lab.config import LearnConfig
from simulator.lab.learner import Learner
from simulator.lab.methods import Method
from simulator.lab.models.pairs import PairPolicy
from simulator.lab.models.tables import Table
from simulator.lab.parts import Lesson
from simulator.lab.student import Student
from simulator.lab.tasks.modular_addition import ModularAddition
from simulator.lab.traffic import Part, Traffic
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import LogNormal


def world(seed: int = 0) -> ModularAddition:
    return ModularAddition(modulus=10, questions=8, hidden=64, seed=seed)


def learner(estimator: Estimator, *, rate: float = 4e-3, seed: int = 0) -> Learner:
    task = world(seed)
    return Learner(Method(estimator=estimator), task.policy(), task.critic, learning_rate=rate)


def traffic(rollouts: int = 128, *, group_size: int = 8, version: int = 0) -> Traffic:
    """Whole rollouts of version 0."""
    ids = np.arange(rollouts, dtype=np.int64)
    return Traffic(
        version=version,
        index_in_batch=0,
        rollout_ids=ids,
        prompt_ids=ids // group_size,
        group_ids=ids // group_size,
        length_tokens=[8] * rollouts,
        parts=[(Part(0, 0),)] * rollouts,
    )


def sampled_by(student: Learner, *, rollouts: int = 128, group_size: int = 8) -> Lesson:
    """Rollouts sampled by the learner's present weights, as version 0."""
    sampler = world().sampler()
    sampler.publish(0, student.policy.snapshot())
    return sampler.sample(traffic(rollouts, group_size=group_size))


def table(student: Learner) -> Table:
    """What the policy says now."""
    policy = student.policy
    assert isinstance(policy, PairPolicy)
    with torch.no_grad():
        return policy()


def imposed(estimator: str, *, lag: int, updates: int, **changes: Any) -> Student:
    """A student whose data is exactly so old."""
    pipeline = {
        "slots": 1,
        "engine": FixedSpeed(seconds_per_token=1.0),
        "rollouts_per_update": changes.pop("rollouts", 128),
        "group_size": changes.pop("group_size", 8),
        "updates": updates,
        "policy_update_s": 1.0,
        "lengths": LogNormal(mean_tokens=8, sd_tokens=1),
        "seed": changes.pop("seed", 0),
        "critic_updates": changes.pop("critic_updates", 0),
        "critic_update_s": changes.pop("critic_update_s", 0.0),
        "updates_per_batch": changes.pop("updates_per_batch", 1),
    }
    return Student(
        LearnConfig(
            pipeline=PipelineConfig(**pipeline),
            estimator=estimator,  # type: ignore[arg-type]
            imposed_lag_updates=lag,
            **changes,
        )
    )
