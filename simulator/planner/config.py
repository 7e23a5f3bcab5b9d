"""What is to be planned? A model, machines, lengths, a batch, a system; and the settings to try."""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from simulator.planner import settings
from simulator.planner.accelerators import ACCELERATORS, Accelerator, Achieved, Name, Portion
from simulator.planner.roofline import FORWARD, FORWARD_BACKWARD, Model, gpus_an_engine
from simulator.world.lengths import Law

Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Few: TypeAlias = Annotated[int, Field(ge=0, le=1000)]


@final
class PlanConfig(BaseModel):
    """The question."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: Model
    machines: Count
    """Accelerators, for trainer and engines together."""
    accelerator: Name = "h100"
    achieved: Achieved = Achieved()
    gpus_per_engine: Count | None = None
    """None for the fewest whose memory is two thirds weights, or less."""
    lengths: Annotated[Law, Field(discriminator="kind")]
    prompt_tokens: Annotated[int, Field(ge=0, le=10**7)] = 500
    group_size: Count = 8
    rollouts_per_update: Count = 512
    updates_per_batch: Count = 1
    log_prob_passes: Few = 1
    """Forward passes of the trainer besides the update: old log-probs, a reference model."""
    critic_updates: Few = 0
    """Updates of a critic as large as the policy, on each batch; one pass for its values besides."""
    system: str = "areal"
    """Whose rule is simulated and whose words the answer is in."""
    rollout_shares: tuple[Portion, ...] = (0.25, 0.5, 0.75)
    """GPUs that decode, as a share of all."""
    in_flight: tuple[Count, ...] = (512, 1024, 2048)
    """Rollouts that decode at once, over all engines."""
    bounds_batches: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = (1, 2, 4)
    updates: Count = 80
    """Simulated of each setting."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 3
    """Simulations of each setting; intervals need at least 2."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    replica_rollouts: Count = 4096
    """Where all sizes have a common divisor, settings are tried on a part of the machine with about so many
    rollouts in flight at most, and the best once more on the whole."""

    @field_validator("system")
    @classmethod
    def _has_a_bound(cls, name: str) -> str:
        settings.knob(name)
        return name.replace("-", "_")

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for name in ("rollout_shares", "in_flight", "bounds_batches"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: name at least one value to try")
        if self.rollouts_per_update % self.group_size:
            raise ValueError(
                f"rollouts_per_update ({self.rollouts_per_update}) is not a multiple of group_size"
                f" ({self.group_size})"
            )
        if self.system == "sao" and self.group_size != 1:
            raise ValueError(f"system sao takes one rollout a prompt: group_size is {self.group_size}")
        if self.updates < 8 * self.updates_per_batch:
            raise ValueError(f"updates ({self.updates}) is less than 8 batches: too few to measure")
        if self.gpus_engine > self.machines:
            raise ValueError(f"one engine needs {self.gpus_engine} GPUs, and machines is {self.machines}")
        return self

    @property
    def gpu(self) -> Accelerator:
        return ACCELERATORS[self.accelerator]

    @property
    def gpus_engine(self) -> int:
        return self.gpus_per_engine or gpus_an_engine(self.model, self.gpu, self.achieved)

    @property
    def batch_rollouts(self) -> int:
        return self.rollouts_per_update * self.updates_per_batch

    @property
    def policy_flops_a_parameter(self) -> int:
        """Of an update and the passes before it, a token."""
        passes = self.log_prob_passes + (1 if self.critic_updates else 0)
        return FORWARD_BACKWARD + FORWARD * passes

    @property
    def trainer_copies(self) -> int:
        """Models with an optimizer that the trainer's GPUs hold."""
        return 2 if self.critic_updates else 1
