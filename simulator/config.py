"""What is simulated? The pipeline's parameters, checked once, with units in their names."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal, Self, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.rules import admission, eviction, staleness
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape
from simulator.systems.base import System
from simulator.systems.every import AnySystem
from simulator.world.amounts import Amount
from simulator.world.decoding import Engine, FixedSpeed, LoadDependent
from simulator.world.episodes import EpisodeLaw, SingleTurn
from simulator.world.failures import Failures
from simulator.world.lengths import Law, LengthLaw, Trace, clipped_share
from simulator.world.service import Balance
from simulator.world.trace_csv import read_lengths

# Upper bounds keep sums exact and finite; they are far beyond any machine.
Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Time: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


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


StalenessRule: TypeAlias = Sync | OneStepOff | BoundedLag | DropByAge | Unbounded | AnySystem


@final
class PipelineConfig(_Record):
    """One pipeline: engines that sample, a queue, a trainer, a push.

    A batch is `updates_per_batch * rollouts_per_update` rollouts.
    """

    slots: Count = 256
    """Rollouts that can decode at once, over all engines: the sum of their max_num_seqs."""
    engines: Count = 1
    """Engines; each has slots / engines of the slots."""
    engine: Annotated[Engine, Field(discriminator="kind")] = FixedSpeed()
    """How fast they decode, and what fits in them."""
    prompt_tokens: Annotated[int, Field(ge=0, le=10**9)] = 0
    """Of every prompt: its keys and values, and its prefill."""
    group_size: Count = 1
    """Rollouts that answer one prompt and wait for each other."""
    rollouts_per_update: Count = 128
    updates_per_batch: Count = 1
    """Optimizer updates on one batch."""
    batches_per_push: Count = 1
    """Batches between two pushes: verl's trigger_parameter_sync_step, a sync interval."""
    updates: Count = 200
    """Optimizer updates until the run ends, in all."""
    policy_update_s: Time = 10.0
    policy_update_s_per_token: Time = 0.0
    """For each token of the data-parallel rank that has most."""
    log_prob_s: Time = 0.0
    """Log-probs under the trainer's own weights (pi_old), of a whole batch, before its first update."""
    log_prob_s_per_token: Time = 0.0
    reference_s: Time = 0.0
    """Log-probs under a reference policy, likewise."""
    reference_s_per_token: Time = 0.0
    data_parallel: Count = 1
    """Ranks that share a batch's rollouts: whatever is per token waits for the one with the most tokens."""
    data_parallel_balance: Balance = "longest_first"
    """How they share: the longest first, each to the rank with the fewest tokens so far; or in turn."""
    critic_update_s: Time = 0.0
    critic_updates: Annotated[int, Field(ge=0)] = 0
    """Critic updates before each policy update, on the same rollouts."""
    push_s: Time = 0.0
    """From the last update of a batch until the engines hold the new weights; the trainer waits for it."""
    queue_capacity_rollouts: Count | None = None
    """None for no limit."""
    queue_full: Literal["drop_oldest", "block"] = "drop_oldest"
    """Beyond it the oldest rollouts in the queue are dropped; or a group that finds no room holds the slot it
    ended in, until there is some."""
    max_outstanding_rollouts: Count | None = None
    """Started and not yet taken by the trainer; beyond it no rollout starts. None for no limit."""
    lengths: Annotated[Law, Field(discriminator="kind")]
    length_correlation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Within a prompt, on the Gaussian scale."""
    episode: Annotated[EpisodeLaw, Field(discriminator="kind")] = SingleTurn()
    """What happens in a rollout besides answering."""
    environment_start_s: Amount = Amount()
    """From a rollout's admission until its environment is there and an engine can be asked."""
    reward_s: Amount = Amount()
    """From a rollout's last token until its reward is known; then it can be trained on."""
    environments: Count | None = None
    """Rollouts that can be under way at once, whether they decode or wait, from admission to reward; None for
    as many as slots."""
    validate_every_updates: Count | None = None
    """Validation rollouts are asked of the same engines after every so many updates; None for never."""
    validation_rollouts: Annotated[int, Field(ge=0, le=10**7)] = 0
    """Each time; of one turn, as long as `lengths` say, never trained on."""
    validation_priority: Literal["before", "among"] = "before"
    """They get free slots before rollouts for training do, or the two in turn."""
    validation_blocks_trainer: bool = True
    """The trainer goes on when all of them have ended."""
    staleness: Annotated[StalenessRule, Field(discriminator="kind")] = Unbounded()
    failures: Failures = Failures()
    """What goes wrong; nothing by default."""
    stall_limit_s: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = None
    """Without an update for so long the run ends with an error that names who waits for what; None: never."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @property
    def batch_rollouts(self) -> int:
        return self.updates_per_batch * self.rollouts_per_update

    @property
    def has_environments(self) -> bool:
        """Does a rollout do anything besides decoding one answer?"""
        waits = (self.environment_start_s, self.reward_s)
        return (
            not isinstance(self.episode, SingleTurn)
            or self.environments is not None
            or not all(amount.is_zero for amount in waits)
        )

    @property
    def updates_per_push(self) -> int:
        return self.updates_per_batch * self.batches_per_push

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if faults := [fault for check in _CHECKS if (fault := check(self))]:
            raise ValueError("; ".join(faults))
        return self


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
    rule, oldest = config.staleness, config.updates_per_batch - 1
    if isinstance(rule, DropByAge) and rule.max_lag_updates < oldest:
        return (
            f"staleness.max_lag_updates ({rule.max_lag_updates}) is less than updates_per_batch - 1"
            f" ({oldest}): the last update of a batch accepts no rollout"
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


_CHECKS: Final = (
    _divides,
    _batch_fits,
    _age_limit_accepts,
    _gate_opens,
    _system_suits,
    _rollouts_fit,
    _fails_where_it_can,
    _has_effect,
)


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
    return replace(rule, admission=gate, overflow=overflow)


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
