"""In which precision, and in what pieces, does a run compute? On processors and on GPUs alike."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Computing(BaseModel):
    """Of the trainer's passes; the precision is the engines' too."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the passes and of the engines; the trainer's weights, gradients and moments are float32."""
    tokens_at_once: Annotated[int, Field(ge=1, le=10**7)] | None = None
    """Of a micro-batch on each rank, padding included; an update accumulates the gradients of as many as it
    takes, and a longer rollout goes alone. None: one."""
    packed: bool = False
    """Rollouts of a micro-batch stand behind one another, without padding."""
    checkpointed: bool = False
    """Blocks are computed anew for the backward pass: less memory, more computing."""
    max_gradient_norm: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """The policy's gradient is shortened to it; None leaves it as it is."""
