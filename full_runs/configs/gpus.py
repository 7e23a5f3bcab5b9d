"""Which GPUs are there, and what part of one may an engine take?

No run on GPUs has been executed so far: none was available.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from simulator.planner.accelerators import Name

Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]


class OnGpus(BaseModel):
    """A trainer of `ranks` GPUs beside `engines` of `tensor_parallel` GPUs each; or all on one GPU.

    `placement` says which GPU is whose.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gpus: Annotated[int, Field(ge=0, le=10**6)] = 0
    """Over all nodes; 0: processors only."""
    accelerator: Name = "h100"
    """For the plan."""
    gpus_per_node: Count = 8
    tensor_parallel: Count = 1
    """GPUs, or on processors processes, of an engine."""
    engine_memory: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Share of a GPU's memory that an engine takes: vLLM's gpu_memory_utilization."""
