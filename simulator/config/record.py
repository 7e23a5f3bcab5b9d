"""The pipeline's parameters, with units in their names."""

from __future__ import annotations

from typing import Annotated, Literal, Self, final

from pydantic import Field, model_validator

from simulator.config.checks import CHECKS
from simulator.config.staleness import Count, Record, StalenessRule, Time, Unbounded
from simulator.world.amounts import Amount
from simulator.world.decoding import Engine, FixedSpeed
from simulator.world.episodes import EpisodeLaw, SingleTurn
from simulator.world.failures import Failures
from simulator.world.lengths import Law
from simulator.world.service import Balance


@final
class PipelineConfig(Record):
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
    keys_at_push: Literal["keep", "recompute"] | None = None
    """Running rollouts go on with keys and values of the old weights, or compute them again; None: as the
    staleness rule has it."""
    engines_stand_still: bool | None = None
    """While weights are copied into them; None: as the staleness rule has it."""
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
        if faults := [fault for check in CHECKS if (fault := check(self))]:
            raise ValueError("; ".join(faults))
        return self
