"""What is simulated? The pipeline's parameters, checked once, with units in their names."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.rules import admission, eviction, staleness
from simulator.rules.staleness import Staleness
from simulator.world.lengths import Law, LengthLaw, Trace
from simulator.world.trace_csv import read_lengths

Count: TypeAlias = Annotated[int, Field(ge=1)]
Time: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveTime: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class Sync(_Record):
    """Generate, train, push; nothing overlaps."""

    kind: Literal["sync"] = "sync"


@final
class OneStepOff(_Record):
    """The next batch is generated while this one trains: lag one batch, exactly."""

    kind: Literal["one_step_off"] = "one_step_off"


@final
class BoundedLag(_Record):
    """AReaL's gate: generation runs at most `eta_batches` ahead."""

    kind: Literal["bounded_lag"] = "bounded_lag"
    eta_batches: Annotated[int, Field(ge=0)]
    max_concurrent_rollouts: Count | None = None


@final
class DropByAge(_Record):
    """Start freely; at consumption throw away what is more than `max_lag_updates` old."""

    kind: Literal["drop_by_age"] = "drop_by_age"
    max_lag_updates: Annotated[int, Field(ge=0)]


@final
class Unbounded(_Record):
    """Start freely, train on everything."""

    kind: Literal["unbounded"] = "unbounded"


StalenessRule: TypeAlias = Sync | OneStepOff | BoundedLag | DropByAge | Unbounded


@final
class PipelineConfig(_Record):
    """One pipeline: engines that sample, a queue, a trainer, a push. `B = updates_per_batch * rollouts_per_update`."""

    slots: Count = 256
    """Rollouts that can decode at once, over all engines."""
    engines: Count = 1
    """Engines; each has slots / engines of the slots."""
    seconds_per_token: PositiveTime = 0.02
    group_size: Count = 1
    """Rollouts that answer one prompt and wait for each other."""
    rollouts_per_update: Count = 128
    updates_per_batch: Count = 1
    """Optimizer updates on one batch, between two pushes."""
    updates: Count = 200
    """Optimizer updates until the run ends, in all."""
    policy_update_s: Time = 10.0
    policy_update_s_per_token: Time = 0.0
    critic_update_s: Time = 0.0
    critic_updates: Annotated[int, Field(ge=0)] = 0
    """Critic updates before each policy update, on the same rollouts."""
    push_s: Time = 0.0
    """From the last update of a batch until the engines hold the new weights; the trainer waits for it."""
    queue_capacity_rollouts: Count | None = None
    """Beyond it the oldest rollouts in the queue are dropped; None for no limit."""
    max_outstanding_rollouts: Count | None = None
    """Started and not yet taken by the trainer; beyond it no rollout starts. None for no limit."""
    lengths: Annotated[Law, Field(discriminator="kind")]
    length_correlation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Within a prompt, on the Gaussian scale."""
    staleness: Annotated[StalenessRule, Field(discriminator="kind")] = Unbounded()
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def batch_rollouts(self) -> int:
        return self.updates_per_batch * self.rollouts_per_update

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for wrong, why in (
            (
                self.slots % self.engines,
                f"slots ({self.slots}) is not a multiple of engines ({self.engines})",
            ),
            (
                self.rollouts_per_update % self.group_size,
                f"rollouts_per_update ({self.rollouts_per_update}) is not a multiple of group_size ({self.group_size})",
            ),
            (
                self.updates % self.updates_per_batch,
                f"updates ({self.updates}) is not a multiple of updates_per_batch ({self.updates_per_batch})",
            ),
            (
                (self.queue_capacity_rollouts or self.batch_rollouts) < self.batch_rollouts,
                f"queue_capacity_rollouts ({self.queue_capacity_rollouts}) cannot hold"
                f" a batch of {self.batch_rollouts} rollouts",
            ),
            (
                (self.max_outstanding_rollouts or self.batch_rollouts) < self.batch_rollouts,
                f"max_outstanding_rollouts ({self.max_outstanding_rollouts}) is less than"
                f" a batch of {self.batch_rollouts} rollouts: it could never fill",
            ),
            (
                isinstance(self.staleness, DropByAge)
                and self.staleness.max_lag_updates < self.updates_per_batch - 1,
                f"staleness.max_lag_updates is less than updates_per_batch - 1 = {self.updates_per_batch - 1}: the"
                " last update of a batch could never accept a rollout",
            ),
            (
                self.critic_updates == 0 and self.critic_update_s > 0,
                f"critic_update_s ({self.critic_update_s}) has no effect with critic_updates 0",
            ),
            (
                self.length_correlation > 0 and self.group_size == 1,
                f"length_correlation ({self.length_correlation}) has no effect with group_size 1",
            ),
        ):
            if wrong:
                raise ValueError(why)
        return self


def length_law(law: Law) -> LengthLaw:
    """The law that a configuration names; a trace is read from its file.

    Errors:
        FileNotFoundError, ValueError: the trace cannot be used (see `trace_csv.read_lengths`).
    """
    if isinstance(law, Trace):
        return read_lengths(law.path, law.column, law.weights_column, max_tokens=law.max_tokens).law
    return law


def staleness_rule(config: PipelineConfig) -> Staleness:
    """The decisions that a configuration asks for."""
    rule = _named(config.staleness)
    gate, overflow = rule.admission, rule.overflow
    if config.max_outstanding_rollouts is not None:
        gate = admission.back_pressure(gate, config.max_outstanding_rollouts)
    if config.queue_capacity_rollouts is not None:
        overflow = eviction.drop_oldest_beyond(config.queue_capacity_rollouts)
    return Staleness(
        admission=gate, age_limit=rule.age_limit, overflow=overflow, may_publish=rule.may_publish
    )


def _named(rule: StalenessRule) -> Staleness:
    match rule:
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
