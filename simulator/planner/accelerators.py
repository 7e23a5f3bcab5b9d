"""What can a machine do, on paper, and what share of it is reached?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field

Name: TypeAlias = Literal["a100", "h100", "h200", "h800", "h20", "gb200"]
Portion: TypeAlias = Annotated[float, Field(gt=0, le=1)]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One GPU, by its public figures."""

    flops_per_s: float
    """Dense, 16-bit (bf16)."""
    memory_bytes_per_s: float
    memory_bytes: float
    network_bytes_per_s: float
    """Of its share of the node's network, one way: the way from trainer to engines."""


A100: Final = Accelerator(
    flops_per_s=312e12, memory_bytes_per_s=2.039e12, memory_bytes=80e9, network_bytes_per_s=25e9
)
"""80 GB SXM, in a node of 8 x 200 Gb/s. https://www.nvidia.com/en-us/data-center/a100/"""
H100: Final = Accelerator(
    flops_per_s=989e12, memory_bytes_per_s=3.35e12, memory_bytes=80e9, network_bytes_per_s=50e9
)
"""SXM, in a node of 8 x 400 Gb/s. https://www.nvidia.com/en-us/data-center/h100/"""
H200: Final = Accelerator(
    flops_per_s=989e12, memory_bytes_per_s=4.8e12, memory_bytes=141e9, network_bytes_per_s=50e9
)
"""SXM. https://www.nvidia.com/en-us/data-center/h200/"""
H800: Final = H100
"""An H100 with a slower NVLink, which nothing here counts; DeepSeek-V3 report, arXiv 2412.19437."""
H20: Final = Accelerator(
    flops_per_s=148e12, memory_bytes_per_s=4.0e12, memory_bytes=96e9, network_bytes_per_s=50e9
)
"""As sellers state it; the maker has no public page. The network is a *choice*: 8 x 400 Gb/s a node."""
GB200: Final = Accelerator(
    flops_per_s=2500e12, memory_bytes_per_s=8e12, memory_bytes=186e9, network_bytes_per_s=50e9
)
"""Half of a superchip. https://www.nvidia.com/en-us/data-center/gb200-nvl72/"""

ACCELERATORS: Final[dict[Name, Accelerator]] = {
    "a100": A100,
    "h100": H100,
    "h200": H200,
    "h800": H800,
    "h20": H20,
    "gb200": GB200,
}


@final
class Achieved(BaseModel):
    """What share of the public figures is reached, and what no figure says. All are *choices*.

    Large dense pretraining reaches 0.35 to 0.45 of the 16-bit peak, decoding 0.5 to 0.8 of the bandwidth.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    training_flops: Portion = 0.4
    """Of the peak, in training and in forward passes of the trainer."""
    prefill_flops: Portion = 0.5
    decode_flops: Portion = 0.5
    memory_bandwidth: Portion = 0.6
    """Of the peak, while decoding."""
    network_dense: Portion = 0.5
    """While whole tensors are pushed."""
    network_experts: Portion = 0.018
    """While a mixture of experts is pushed, tensor by tensor: from verl's 30B pushes (see `published`)."""
    memory_usable: Portion = 0.9
    """Of an engine's memory, for weights, keys and values."""
    layer_overhead_s: Annotated[float, Field(ge=0, le=1)] = 3e-5
    """Of each layer in each decode step: launching kernels, waiting for the other GPUs of the engine."""
    host_bytes_per_s: Annotated[float, Field(gt=0, le=1e15)] = 25e9
    """Between a GPU and its host, where trainer and engine on one GPU take turns in its memory."""
    trainer_bytes_a_parameter: Annotated[float, Field(gt=0, le=1000)] = 16.0
    """Weights and gradients in 16 bits, a copy and two moments in 32, over the trainer's GPUs."""
