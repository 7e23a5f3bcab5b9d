"""Experiments by name: functions that return a configuration, for `policylag simulate` and `learn`.

One pipeline underlies them all: answers as long as DeepSeek-R1's in production, two decoding slots for
each rollout of a batch (the upper end of the published runs of Applied Compute, 2026), and four optimizer
updates a batch and push (AReaL's mini-batches). Generation is the bottleneck by about three to one, so
the trainer waits; a critic as large as the policy, trained twice an update, takes up that slack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, get_args

from simulator.config import BoundedLag, DropByAge, OneStepOff, PipelineConfig, Sync
from simulator.lab.config import LearnConfig
from simulator.lab.names import CRITICS, SINGLE, EstimatorName
from simulator.systems.aged import SAO, Laminar, MinimaxWfifo, PrimeRL
from simulator.systems.base import System
from simulator.systems.every import SYSTEMS
from simulator.systems.gated import PipelineRL, VerlFullyAsync
from simulator.world.amounts import Amount
from simulator.world.decoding import FixedSpeed
from simulator.world.episodes import MultiTurn
from simulator.world.failures import Failures
from simulator.world.lengths import DeepSeekR1, LogNormal

_GROUPS: Final[Mapping[str, Any]] = {
    "slots": 1024,
    "engines": 8,
    "engine": FixedSpeed(seconds_per_token=0.02),
    "group_size": 8,
    "rollouts_per_update": 128,
    "updates_per_batch": 4,
    "updates": 1200,
    "policy_update_s": 1.1,
    "push_s": 0.5,
    "lengths": DeepSeekR1(),
}
_AGENTIC: Final[Mapping[str, Any]] = {
    "lengths": LogNormal(mean_tokens=600, sd_tokens=900, max_tokens=8192),
    "episode": MultiTurn(
        mean_turns=8,
        turns_law="geometric",
        most_turns=50,
        observation_tokens=Amount(mean=500, law="lognormal", cv=1.5, most=8192),
        latency_s=Amount(mean=3, law="pareto", tail_index=1.5, most=300),
    ),
    "environment_start_s": Amount(mean=15, law="lognormal", cv=1),
    "reward_s": Amount(mean=5),
    "environments": 1536,
    "updates": 400,
    "policy_update_s": 3.0,
    "log_prob_s": 2.0,
}
_FAILING: Final[Mapping[str, Any]] = {
    "failures": Failures(
        engine_crash_every_s=3600.0,
        engine_restart_s=120.0,
        environment_failure_probability=0.05,
        group_deadline_s=600.0,
        slow_engines=1,
        slow_factor=2.0,
        slow_every_s=1800.0,
        slow_for_s=300.0,
        trainer_stall_every_s=1800.0,
        trainer_stall_s=120.0,
    ),
    "queue_capacity_rollouts": 1024,
    "queue_full": "block",
    "stall_limit_s": 3600.0,
    "updates": 400,
}
_SINGLE: Final[Mapping[str, Any]] = {
    "group_size": 1,
    "critic_updates": 2,
    "critic_update_s": _GROUPS["policy_update_s"],
}


def groups(**changes: Any) -> PipelineConfig:
    """16 prompts of 8 rollouts an update; a group waits for its slowest member.

    Args:
        changes: fields of `PipelineConfig`, in place of those of this experiment.

    Raises:
        pydantic.ValidationError: an unknown field, or an impossible combination.
    """
    return PipelineConfig(**{**_GROUPS, **changes})


def single(**changes: Any) -> PipelineConfig:
    """128 prompts of one rollout an update, and two critic updates, each as long as the policy's."""
    return groups(**{**_SINGLE, **changes})


def agentic(**changes: Any) -> PipelineConfig:
    """Turns with tools: most answer in seconds, a few take minutes; slots are free meanwhile.

    Half as many environments again as slots keep these busy. An episode has 4,700 tokens on average, three
    times one of DeepSeek-R1's answers, and training takes three times as long, too.
    """
    return groups(**{**_AGENTIC, **changes})


def failing(**changes: Any) -> PipelineConfig:
    """The same machines on a bad day: engines crash, one is slow, environments fail, the trainer stalls.

    At 5 % a third of the groups of 8 lose a member; the queue refuses what finds no room.
    """
    return groups(**{**_FAILING, **changes})


def learning(estimator: EstimatorName, **changes: Any) -> LearnConfig:
    """A small model that learns modular addition under that pipeline; `changes` are the pipeline's.

    An estimator that can learn from single rollouts gets those; one with a critic trains it twice an update.
    """
    pipeline = {} if estimator not in SINGLE else _SINGLE if estimator in CRITICS else {"group_size": 1}
    return LearnConfig(pipeline=groups(**{**pipeline, **changes}), estimator=estimator)


def under(system: type[System], **changes: Any) -> PipelineConfig:
    """The same machines under a system's rule with its own defaults: `policylag simulate areal`."""
    return groups(**{"staleness": system(), **_SUITED.get(system, {}), **changes})


_SUITED: Final[Mapping[type[System], Mapping[str, Any]]] = {
    SAO: _SINGLE,
    # A push after four local updates, each on what came first: its published setting.
    VerlFullyAsync: {"updates_per_batch": 1, "batches_per_push": 4},
    # A window of 0.3 N has to hold a batch.
    MinimaxWfifo: {"staleness": MinimaxWfifo(generation_rollouts=2048)},
    # There a batch is what one optimizer update takes.
    PrimeRL: {"updates_per_batch": 1},
    PipelineRL: {"updates_per_batch": 1},
    Laminar: {"updates_per_batch": 1},
}
"""What a system needs besides its rule."""


PIPELINES: Final[Mapping[str, Callable[[], PipelineConfig]]] = {
    "groups": groups,
    "single": single,
    "agentic": agentic,
    "failing": failing,
    "sync": lambda: groups(staleness=Sync()),
    "one-step-off": lambda: groups(staleness=OneStepOff()),
    "bounded-lag": lambda: groups(staleness=BoundedLag(eta_batches=2)),
    "drop-by-age": lambda: groups(staleness=DropByAge(max_lag_updates=32)),
    **{system.model_fields["kind"].default.replace("_", "-"): partial(under, system) for system in SYSTEMS},
}
LEARNERS: Final[Mapping[str, Callable[[], LearnConfig]]] = {
    name.replace("_", "-"): partial(learning, name)
    for name in ("sao", *(other for other in get_args(EstimatorName) if other != "sao"))
}
