"""What if every rollout were exactly k updates old? The learner without a pipeline.

Published experiments impose the lag: data for update n is sampled by the weights of update n - k (the
starting weights while n < k). There is no clock, no barrier and no spread of lags; results say *imposed*.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from simulator.lab.learner import Learner
from simulator.lab.modular_addition import ModularAddition, answered
from simulator.lab.snapshots import Snapshots


def learn_at_lag(
    learner: Learner,
    world: ModularAddition,
    *,
    lag_updates: int,
    updates: int,
    rollouts_per_update: int,
    group_size: int,
) -> Iterator[dict[str, float]]:
    """Metrics of each update, trained on data from exactly `lag_updates` updates ago."""
    snapshots = Snapshots()
    snapshots.publish(0, learner.policy.snapshot())
    for update in range(updates):
        ids = np.arange(update * rollouts_per_update, (update + 1) * rollouts_per_update)
        questions = world.prompts(ids // group_size)
        versions = torch.full((len(ids), world.questions), max(update - lag_updates, 0))
        sampled = snapshots.sample(questions, versions, world.uniforms(ids))
        batch = answered(
            questions, sampled, versions, torch.from_numpy(ids // group_size), modulus=world.modulus
        )
        yield learner.update(questions, batch, learner.policy.snapshot())
        snapshots.publish(update + 1, learner.policy.snapshot())
