"""What is a learning run? A schedule, an estimator by name, and the small world it learns in."""

from __future__ import annotations

from typing import Annotated, Literal, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.config import PipelineConfig
from simulator.lab.names import CRITICS, SINGLE, EstimatorName
from simulator.lab.worlds import ModularAdditionWorld, World

__all__ = ["EstimatorName", "LearnConfig"]

_RATE = Field(gt=0, le=1e6)


@final
class LearnConfig(BaseModel):
    """One run in which a small model samples and learns under the schedule of a pipeline."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pipeline: PipelineConfig
    """With an imposed lag only its seed, sizes, counts of updates and critic updates matter."""
    estimator: EstimatorName
    world: Annotated[World, Field(discriminator="kind")] = ModularAdditionWorld()
    """What is learned."""
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Annotated[float, _RATE] = 2e-3
    """The policy's."""
    critic_learning_rate_ratio: Annotated[float, _RATE] = 5.0
    """Critic's learning rate over the policy's, as in the paper; at high rates it can kill it."""
    eps_low: Annotated[float, Field(ge=0)] | None = None
    """Half-width of the estimator's band below 1; None is the estimator's own."""
    eps_high: Annotated[float, Field(ge=0)] | None = None
    """Half-width of the estimator's band above 1; None is the estimator's own."""
    imposed_lag_updates: Annotated[int, Field(ge=0)] | None = None
    """Data for every update is exactly so many updates old; None: lag emerges from the pipeline."""
    imposed_lag_spread: Annotated[int, Field(ge=0)] = 0
    """Members of a group differ in lag by up to so many updates to either side: versions mixed in a group."""
    distinct_prompts: Annotated[int, Field(ge=1)] | None = None
    """So many prompts come again and again; None: no prompt ever comes back."""
    value_pretraining_rollouts: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Rollouts of the starting policy that the critic is fitted to before the first update."""
    value_pretraining_bootstrap: bool = True
    """Does value follow a rollout that was cut, in pretraining? If most are cut, that has no anchor."""

    @model_validator(mode="after")
    def _fits_its_estimator(self) -> Self:
        size, critic = self.pipeline.group_size, self.pipeline.critic_updates
        if self.estimator not in SINGLE and size < 2:
            raise ValueError(
                f"pipeline.group_size is {size}: {self.estimator} centres rewards on a group,"
                " and a group of one has no signal"
            )
        if self.estimator.startswith("sao") and size != 1:
            raise ValueError(f"pipeline.group_size is {size}: {self.estimator} takes one rollout a prompt")
        if self.estimator not in CRITICS and critic:
            raise ValueError(f"pipeline.critic_updates is {critic}: {self.estimator} has no critic")
        if self.estimator in CRITICS and not critic:
            raise ValueError(
                f"pipeline.critic_updates is 0: {self.estimator} trains a critic (the paper of SAO: 2)"
            )
        if self.estimator not in CRITICS and self.value_pretraining_rollouts:
            raise ValueError(
                f"value_pretraining_rollouts is {self.value_pretraining_rollouts}:"
                f" {self.estimator} has no critic"
            )
        if not (self.value_pretraining_bootstrap or self.value_pretraining_rollouts):
            raise ValueError(
                "value_pretraining_bootstrap is False, which has no effect with value_pretraining_rollouts 0"
            )
        return self

    @model_validator(mode="after")
    def _lag_is_possible(self) -> Self:
        lag, spread = self.imposed_lag_updates, self.imposed_lag_spread
        if spread and (lag is None or spread > lag):
            raise ValueError(
                f"imposed_lag_spread is {spread}, imposed_lag_updates {lag}: lags cannot be negative"
            )
        return self
