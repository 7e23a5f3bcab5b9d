"""Experiments by name: functions that return a configuration, for `policylag simulate` and `learn`.

One pipeline underlies them all: answers as long as DeepSeek-R1's in production, two decoding slots for
each rollout of a batch (the upper end of the published runs of Applied Compute, 2026), and four optimizer
updates a batch and push (AReaL's mini-batches). Generation is the bottleneck by about three to one, so
the trainer waits; a critic as large as the policy, trained twice an update, takes up that slack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simulator.config import (
    BoundedLag,
    DropByAge,
    OneStepOff,
    PipelineConfig,
    StalenessRule,
    Sync,
    Unbounded,
)
from simulator.lab.config import EstimatorName, LearnConfig
from simulator.world.lengths import DeepSeekR1

GROUP_SIZE: Final = 8
CRITIC_UPDATES: Final = 2


def groups(staleness: StalenessRule = Unbounded()) -> PipelineConfig:  # noqa: B008 - frozen
    """16 prompts of 8 rollouts an update; a group waits for its slowest member."""
    return PipelineConfig(
        slots=1024,
        engines=8,
        seconds_per_token=0.02,
        group_size=GROUP_SIZE,
        rollouts_per_update=128,
        updates_per_batch=4,
        updates=1200,
        policy_update_s=1.1,
        push_s=0.5,
        lengths=DeepSeekR1(),
        staleness=staleness,
    )


def single() -> PipelineConfig:
    """128 prompts of one rollout an update, and two critic updates, each as long as the policy's."""
    base = groups()
    return base.model_copy(
        update={
            "group_size": 1,
            "critic_updates": CRITIC_UPDATES,
            "critic_update_s": base.policy_update_s,
        }
    )


def learning(estimator: EstimatorName) -> LearnConfig:
    """A small model that learns modular addition under that pipeline."""
    pipeline = single() if estimator == "sao" else groups()
    return LearnConfig(pipeline=pipeline, estimator=estimator)


PIPELINES: Final[Mapping[str, Callable[[], PipelineConfig]]] = {
    "groups": groups,
    "single": single,
    "sync": lambda: groups(Sync()),
    "one-step-off": lambda: groups(OneStepOff()),
    "bounded-lag": lambda: groups(BoundedLag(eta_batches=2)),
    "drop-by-age": lambda: groups(DropByAge(max_lag_updates=32)),
}
LEARNERS: Final[Mapping[str, Callable[[], LearnConfig]]] = {
    "grpo": lambda: learning("grpo"),
    "grpo-behaviour-clip": lambda: learning("grpo_behaviour_clip"),
    "grpo-dis": lambda: learning("grpo_dis"),
    "sao": lambda: learning("sao"),
}
