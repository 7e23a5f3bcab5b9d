"""Which configurations could never do what they say? Each check answers with a sentence, or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.config.decisions import shape_of, staleness_rule
from simulator.config.staleness import BoundedLag, DropByAge, Sync
from simulator.systems.base import System
from simulator.systems.gated import NemoInOrder
from simulator.world.decoding import FixedSpeed, LoadDependent

if TYPE_CHECKING:
    from simulator.config.record import PipelineConfig


def _divides(config: PipelineConfig) -> str | None:
    for whole, part in (
        ("slots", "engines"),
        ("rollouts_per_update", "group_size"),
        ("updates", "updates_per_batch"),
        ("updates", "updates_per_push"),
        ("validate_every_updates", "updates_per_push"),
    ):
        if (getattr(config, whole) or 0) % getattr(config, part):
            return f"{whole} ({getattr(config, whole)}) is not a multiple of {part} ({getattr(config, part)})"
    return None


def _batch_fits(config: PipelineConfig) -> str | None:
    for name in ("queue_capacity_rollouts", "max_outstanding_rollouts"):
        limit = getattr(config, name)
        if limit is not None and limit < config.batch_rollouts:
            return (
                f"{name} ({limit}) is less than a batch of {config.batch_rollouts} rollouts: it never fills"
            )
    return None


def _age_limit_accepts(config: PipelineConfig) -> str | None:
    rule, oldest = config.staleness, config.updates_per_push - 1
    if isinstance(rule, DropByAge) and rule.max_lag_updates < oldest:
        return (
            f"staleness.max_lag_updates ({rule.max_lag_updates}) is less than updates_per_batch *"
            f" batches_per_push - 1 ({oldest}): the last update before a push accepts no rollout"
        )
    return None


def _gate_opens(config: PipelineConfig) -> str | None:
    """A gate that counts the batches behind the engines' weights must let all of a push's batches start."""
    rule, ahead = config.staleness, config.batches_per_push - 1
    if isinstance(rule, Sync | BoundedLag) and getattr(rule, "eta_batches", 0) < ahead:
        return (
            f"staleness.kind {rule.kind!r} does not start the {config.batches_per_push} batches that the next"
            f" push needs (batches_per_push)"
        )
    return None


def _system_suits(config: PipelineConfig) -> str | None:
    if not isinstance(config.staleness, System) or _divides(config):
        return None
    try:
        config.staleness.rule(shape_of(config))
    except ValueError as wrong:
        return f"staleness: {wrong}"
    return None


def _keys_can_stay(config: PipelineConfig) -> str | None:
    if config.keys_at_push is None or _divides(config) or _system_suits(config):
        return None
    rule = staleness_rule(config.model_copy(update={"keys_at_push": None})).on_sync
    if not rule.one_version_a_rollout:
        return None
    return (
        f"keys_at_push ({config.keys_at_push}) has no effect with staleness.kind {config.staleness.kind!r}:"
        " no rollout there outlives a push"
    )


def _nothing_is_missed(config: PipelineConfig) -> str | None:
    """A batch that is made of named groups waits for ever for one that was dropped."""
    drops = config.queue_capacity_rollouts is not None and config.queue_full == "drop_oldest"
    if isinstance(config.staleness, NemoInOrder) and drops:
        return (
            f"queue_capacity_rollouts ({config.queue_capacity_rollouts}) may drop what nemo_in_order's"
            " next batch waits for: it trains exactly what was dispatched for it"
        )
    return None


def _rollouts_fit(config: PipelineConfig) -> str | None:
    engine = config.engine
    if not isinstance(engine, LoadDependent) or engine.kv_capacity_tokens is None:
        return None
    longest = config.prompt_tokens + (config.lengths.max_tokens or 1)
    if longest > engine.kv_capacity_tokens:
        return (
            f"engine.kv_capacity_tokens ({engine.kv_capacity_tokens}) is less than the {longest} tokens"
            f" of one prompt and its longest answer: it could never be finished"
        )
    return None


def _fails_where_it_can(config: PipelineConfig) -> str | None:
    if config.failures.slow_engines > config.engines:
        return (
            f"failures.slow_engines ({config.failures.slow_engines}) is more than engines ({config.engines})"
        )
    if config.queue_full == "block" and config.queue_capacity_rollouts is None:
        return "queue_full 'block' has no effect without queue_capacity_rollouts"
    return None


def _has_effect(config: PipelineConfig) -> str | None:
    if config.critic_update_s > 0 and config.critic_updates == 0:
        return f"critic_update_s ({config.critic_update_s}) has no effect with critic_updates 0"
    per_token = ("policy_update_s_per_token", "log_prob_s_per_token", "reference_s_per_token")
    if (config.validate_every_updates is None) is (config.validation_rollouts > 0):
        return (
            f"validation_rollouts ({config.validation_rollouts}) and validate_every_updates"
            f" ({config.validate_every_updates}) have no effect without each other"
        )
    if config.data_parallel > 1 and not any(getattr(config, name) for name in per_token):
        return f"data_parallel ({config.data_parallel}) has no effect while no time is per token"
    if config.prompt_tokens > 0 and isinstance(config.engine, FixedSpeed):
        return f"prompt_tokens ({config.prompt_tokens}) has no effect on an engine of fixed speed"
    if config.length_correlation > 0 and config.group_size == 1:
        return f"length_correlation ({config.length_correlation}) has no effect with group_size 1"
    return None


CHECKS: Final = (
    _divides,
    _batch_fits,
    _age_limit_accepts,
    _gate_opens,
    _system_suits,
    _keys_can_stay,
    _nothing_is_missed,
    _rollouts_fit,
    _fails_where_it_can,
    _has_effect,
)
