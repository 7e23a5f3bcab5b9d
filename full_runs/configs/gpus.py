"""What does a run on GPUs have that one on processors has not? Settings only.

They are planned with `policylag full CONFIG --dry-run`. No such run has been executed anywhere so far: there
was no GPU to run it on.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from simulator.planner.accelerators import Name

Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Tokens: TypeAlias = Annotated[float, Field(gt=0, le=1e7)]


class OnGpus(BaseModel):
    """A trainer of `ranks` GPUs beside `engines` of `tensor_parallel` GPUs each; or all on one GPU."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str | None = None
    """Name on the Hugging Face hub, or a folder; None is the tiny model, on processors."""
    gpus: Annotated[int, Field(ge=0, le=10**6)] = 0
    """Over all nodes; 0: processors only."""
    accelerator: Name = "h100"
    gpus_per_node: Count = 8
    tensor_parallel: Count = 1
    """GPUs of an engine."""
    engine_memory: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Share of a GPU's memory that an engine takes: vLLM's gpu_memory_utilization."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the passes and of the engines; the trainer's weights, gradients and moments are float32."""
    tokens_at_once: Count | None = None
    """Of a micro-batch on each rank, rollouts packed behind one another; an update accumulates the gradients
    of as many as it takes. None: one."""
    checkpointed: bool = True
    """Blocks are computed anew for the backward pass."""
    max_prompt_tokens: Count = 1024
    max_response_tokens: Count = 8192
    mean_response_tokens: Tokens = 2000.0
    """Expected, for the plan: a run makes its own. Lognormal, cut at `max_response_tokens`."""
    sd_response_tokens: Tokens = 2000.0

    @property
    def longest_tokens(self) -> int:
        """Of a prompt and its response."""
        return self.max_prompt_tokens + self.max_response_tokens
