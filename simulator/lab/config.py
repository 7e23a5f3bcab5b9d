"""What is a learning run? A pipeline, an estimator by name, and the small world it learns in."""

from __future__ import annotations

from typing import Annotated, Literal, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.config import PipelineConfig

EstimatorName = Literal["grpo", "grpo_behaviour_clip", "grpo_dis", "sao"]


@final
class LearnConfig(BaseModel):
    """One run in which a small model samples and learns under the schedule of a pipeline."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pipeline: PipelineConfig
    estimator: EstimatorName
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    """Adam's, for the policy."""
    critic_learning_rate_ratio: Annotated[float, Field(gt=0)] = 5.0
    """Critic's learning rate over the policy's, as in the paper; at high rates it can kill it."""
    modulus: Annotated[int, Field(ge=2, le=32)] = 10
    """Answers are (a + b) mod this; also the size of the vocabulary."""
    questions: Annotated[int, Field(ge=1, le=1024)] = 8
    """Answer tokens of a rollout; each stands for an equal share of the rollout's simulated tokens."""
    hidden: Annotated[int, Field(ge=1, le=4096)] = 64
    """Width of the policy and of the critic."""

    @model_validator(mode="after")
    def _fits_its_estimator(self) -> Self:
        groups = self.estimator != "sao"
        size = self.pipeline.group_size
        if groups and size < 2:
            raise ValueError(
                f"pipeline.group_size is {size}: {self.estimator} centres rewards on a group,"
                " and a group of one has no signal"
            )
        if not groups and size != 1:
            raise ValueError(f"pipeline.group_size is {size}: sao takes one rollout a prompt")
        critic = self.pipeline.critic_updates
        if groups and critic:
            raise ValueError(f"pipeline.critic_updates is {critic}: {self.estimator} has no critic")
        if not groups and not critic:
            raise ValueError("pipeline.critic_updates is 0: sao trains a critic (the paper: 2)")
        return self
