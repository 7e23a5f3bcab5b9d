"""Small learners and their rollouts, for the tests of this folder."""

from __future__ import annotations

import numpy as np
import torch

from algorithms.estimator import Estimator
from algorithms.rollout import Batch
from simulator.lab.learner import Learner
from simulator.lab.modular_addition import ModularAddition, Questions, answered
from simulator.lab.snapshots import Snapshots


def learner(estimator: Estimator, *, rate: float = 4e-3, seed: int = 0) -> Learner:
    return Learner(estimator, modulus=10, hidden=64, learning_rate=rate, seed=seed)


def world(seed: int = 0) -> ModularAddition:
    return ModularAddition(modulus=10, questions=8, seed=seed)


def sampled_by(student: Learner, *, rollouts: int = 128, group_size: int = 8) -> tuple[Questions, Batch]:
    """Rollouts sampled by the learner's present weights, as version 0."""
    snapshots = Snapshots()
    snapshots.publish(0, student.policy.snapshot())
    place, ids = world(), np.arange(rollouts)
    questions = place.prompts(ids // group_size)
    versions = torch.zeros(rollouts, 8, dtype=torch.long)
    sampled = snapshots.sample(questions, versions, place.uniforms(ids))
    groups = torch.from_numpy(ids // group_size)
    return questions, answered(questions, sampled, versions, groups, modulus=10)
