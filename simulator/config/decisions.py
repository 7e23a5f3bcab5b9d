"""What follows from a configuration: the law of lengths, and the decisions about old data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.config.staleness import BoundedLag, DropByAge, OneStepOff, StalenessRule, Sync, Unbounded
from simulator.rules import admission, eviction, staleness
from simulator.rules.on_sync import OnSync
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape
from simulator.systems.base import System
from simulator.world.lengths import Law, LengthLaw, Trace, clipped_share
from simulator.world.trace_csv import read_lengths

if TYPE_CHECKING:
    from simulator.config.record import PipelineConfig


def length_law(law: Law) -> LengthLaw:
    """The law that a configuration names; a trace is read from its file.

    Errors:
        FileNotFoundError, ValueError: the trace cannot be used (see `trace_csv.read_lengths`).
    """
    if isinstance(law, Trace):
        return read_lengths(law.path, law.column, law.weights_column, max_tokens=law.max_tokens).law
    return law


def share_clipped(law: Law) -> float:
    """Share of all answers that end at the law's own cap because they would be longer; 0 without a cap."""
    if law.max_tokens is None:
        return 0.0
    return clipped_share(length_law(law.model_copy(update={"max_tokens": None})), law.max_tokens)


def staleness_rule(config: PipelineConfig) -> Staleness:
    """The decisions that a configuration asks for."""
    rule = _named(config.staleness, shape_of(config))
    gate, overflow = rule.admission, rule.overflow
    if config.max_outstanding_rollouts is not None:
        gate = admission.back_pressure(gate, config.max_outstanding_rollouts)
    if config.queue_capacity_rollouts is not None and config.queue_full == "drop_oldest":
        overflow = eviction.drop_oldest_beyond(config.queue_capacity_rollouts)
    return replace(rule, admission=gate, overflow=overflow, on_sync=_on_sync(config, rule.on_sync))


def _on_sync(config: PipelineConfig, rule: OnSync) -> OnSync:
    if config.keys_at_push is not None:
        rule = replace(rule, running=config.keys_at_push)
    if config.engines_stand_still is not None:
        rule = replace(rule, pauses_engines=config.engines_stand_still)
    return rule


def shape_of(config: PipelineConfig) -> Shape:
    """The sizes in which systems state their limits."""
    return Shape(
        batch_rollouts=config.batch_rollouts,
        group_size=config.group_size,
        updates_per_batch=config.updates_per_batch,
        batches_per_push=config.batches_per_push,
        slots=config.slots,
    )


def _named(rule: StalenessRule, shape: Shape) -> Staleness:
    match rule:
        case System():
            return rule.rule(shape)
        case Sync():
            return staleness.sync()
        case OneStepOff():
            return staleness.one_step_off()
        case BoundedLag():
            return staleness.bounded_lag(
                rule.eta_batches, max_concurrent_rollouts=rule.max_concurrent_rollouts
            )
        case DropByAge():
            return staleness.drop_by_age(rule.max_lag_updates)
        case Unbounded():
            return staleness.unbounded()
