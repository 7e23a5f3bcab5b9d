"""How long is a step, how old the data, who waits? The configuration simulated with times on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from full_runs.configs.record import FullConfig
from full_runs.plan.architecture import Architecture
from full_runs.plan.fits import method_of, share_of
from full_runs.plan.times import Passes, lengths, micro_batches, timed, tokens_per_update
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run
from simulator.planner.measure import Numbers, estimates, measure
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import mean_tokens

UPDATES: Final = 160
"""Simulated, the first quarter not counted; fewer if the run itself has fewer."""
LEAST_UPDATES: Final = 8
SEEDS: Final = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """On paper, and simulated."""

    tokens_per_update: float
    micro_batches: int
    trainer_s: float
    """Of an update: the critic's fits and the policy's passes."""
    critic_s: float
    """Of these, the critic's fits."""
    decode_step_s: float
    """An engine with all its rollouts: one token of each."""
    generation_s: float
    """For as many tokens as an update takes, all engines full."""
    push_s: float
    recompute_s: float
    """After a push an engine computes keys and values of all that it runs again; 0 where they are kept."""
    simulated: Numbers
    updates: int
    """Of each simulation."""


def passes_of(config: FullConfig) -> tuple[Passes, Passes | None]:
    """Of the policy and of the critic in one update.

    With several micro-batches a pass without gradient goes before the update, and before the critic's fits;
    with one, its graph is kept.
    """
    method = method_of(config)
    before = int(micro_batches(config) > 1)
    policy = Passes(scored=before + int(method.needs_reference), trained=1, checkpointed=config.checkpointed)
    recipe = method.estimator.critic
    if recipe is None:
        return policy, None
    fits = recipe.updates_per_policy_update
    return policy, Passes(scored=before, trained=fits, checkpointed=config.checkpointed)


def pipeline_of(config: FullConfig, model: Architecture) -> PipelineConfig:
    """What is simulated, with the run's own number of updates.

    Errors:
        ValueError: no room for keys and values.
    """
    policy, critic = passes_of(config)
    return timed(config, model, share_of(config), policy=policy, critic=critic)


def expected(
    config: FullConfig, model: Architecture, *, advance: Callable[[], None] = lambda: None
) -> Expected:
    """Simulate `SEEDS` times.

    Args:
        advance: called after each simulation.

    Errors:
        ValueError: no room for keys and values.
    """
    timed_pipeline = pipeline_of(config, model)
    updates = simulated_updates(config)
    # Real engines stand still for a push.
    real = {"updates": updates, "keys_at_push": config.keys_at_push, "engines_stand_still": True}
    found = []
    for number in range(SEEDS):
        found.append(measure(run(timed_pipeline.model_copy(update=real | {"seed": config.seed + number}))))
        advance()
    engine, share = timed_pipeline.engine, share_of(config)
    assert isinstance(engine, LoadDependent)
    step_s = (
        engine.step_fixed_s
        + engine.step_s_per_rollout * share.requests
        + engine.step_s_per_kv_token * share.requests * share.held_tokens
    )
    tokens, again = tokens_per_update(config), config.keys_at_push == "recompute"
    responses = config.rollouts_per_update * mean_tokens(lengths(config))
    critic_s = timed_pipeline.critic_updates * timed_pipeline.critic_update_s
    policy_s = timed_pipeline.policy_update_s + timed_pipeline.policy_update_s_per_token * responses
    prefill_s = engine.prefill_s_per_token * config.rollouts_per_update * config.max_prompt_tokens
    return Expected(
        tokens_per_update=tokens,
        micro_batches=micro_batches(config),
        trainer_s=policy_s + critic_s,
        critic_s=critic_s,
        decode_step_s=step_s,
        generation_s=(step_s * responses / share.requests + prefill_s) / config.engines,
        push_s=timed_pipeline.push_s,
        recompute_s=engine.prefill_s_per_token * share.requests * share.held_tokens if again else 0.0,
        simulated=estimates(found),
        updates=updates,
    )


def simulated_updates(config: FullConfig) -> int:
    """Whole pushes, and enough of them to measure."""
    push = config.updates_per_push
    wanted = max(LEAST_UPDATES * push, min(UPDATES, config.updates))
    return -(-wanted // push) * push
