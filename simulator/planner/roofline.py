r"""How fast is a model that nobody measured? Bytes over bandwidth plus FLOPs over speed.

A decode step of n rollouts that hold K tokens reads weights and K tokens of keys and values, and computes
2 N_active FLOPs a rollout. Its time is the *sum* of these, :math:`a + b n + c K`, not their maximum
(*choice*: the engine's law is linear; the sum is at most twice the maximum of two parts). FLOPs of attention
are left out: under a tenth for a 7B at contexts below 5,000 tokens.
"""

from __future__ import annotations

from typing import Annotated, Final, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simulator.planner.accelerators import Accelerator, Achieved
from simulator.world.decoding import LoadDependent

FORWARD: Final = 2
"""FLOPs a parameter a token; backward takes twice as many."""
FORWARD_BACKWARD: Final = 6


@final
class Model(BaseModel):
    """A transformer, by its sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    parameters_total: Annotated[float, Field(ge=1e6, le=1e15)]
    parameters_active: Annotated[float, Field(ge=1e6, le=1e15)]
    """That one token uses; all of them in a dense model."""
    layers: Annotated[int, Field(ge=1, le=10_000)]
    hidden: Annotated[int, Field(ge=1, le=10**6)] | None = None
    """Width; needed if `kv_bytes_a_token` is not given, and then every head has its own keys and values."""
    kv_bytes_a_token: Annotated[float, Field(gt=0, le=1e9)] | None = None
    bytes_a_parameter: Annotated[float, Field(gt=0, le=8)] = 2.0
    """In the engines."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.parameters_active > self.parameters_total:
            raise ValueError(
                f"parameters_active ({self.parameters_active:g}) is more than parameters_total"
                f" ({self.parameters_total:g})"
            )
        if self.hidden is None and self.kv_bytes_a_token is None:
            raise ValueError("kv_bytes_a_token is needed, or hidden to derive it from")
        return self

    @property
    def weight_bytes(self) -> float:
        return self.parameters_total * self.bytes_a_parameter

    @property
    def kv_bytes(self) -> float:
        """Of one token's keys and values: 2 vectors a layer, 2 bytes a number, unless given."""
        if self.kv_bytes_a_token is not None:
            return self.kv_bytes_a_token
        assert self.hidden is not None
        return 2.0 * self.layers * self.hidden * 2

    @property
    def is_mixture(self) -> bool:
        return self.parameters_active < self.parameters_total


def weights_read_bytes(model: Model, rollouts: float) -> float:
    r"""Bytes of weights that one step reads for n rollouts.

    .. math:: W \left(1 - (1 - N_{active} / N_{total})^n\right)

    Each token picks its share of the parameters at random (*choice*: all parameters are experts'; routing is
    even). A dense model reads all of them for one rollout.
    """
    share = model.parameters_active / model.parameters_total
    return float(model.weight_bytes * (1 - (1 - share) ** rollouts))


def decoding(
    model: Model, gpu: Accelerator, achieved: Achieved, *, gpus: int, rollouts: int
) -> LoadDependent:
    """The law of an engine of `gpus` GPUs that is planned for `rollouts` at once.

    The weights that a mixture reads grow with n and bend; the law is the secant between one rollout and
    `rollouts`, exact at both, too fast in between.

    Errors:
        ValueError: the weights leave no memory for keys and values.
    """
    bandwidth = gpus * gpu.memory_bytes_per_s * achieved.memory_bandwidth
    one, all_of_them = (weights_read_bytes(model, n) / bandwidth for n in (1, rollouts))
    slope_s = (all_of_them - one) / (rollouts - 1) if rollouts > 1 else 0.0
    compute_s = FORWARD * model.parameters_active / (gpus * gpu.flops_per_s)
    return LoadDependent(
        step_fixed_s=one - slope_s + model.layers * achieved.layer_overhead_s,
        step_s_per_rollout=slope_s + compute_s / achieved.decode_flops,
        step_s_per_kv_token=model.kv_bytes / bandwidth,
        prefill_s_per_token=compute_s / achieved.prefill_flops,
        kv_capacity_tokens=kv_capacity_tokens(model, gpu, achieved, gpus=gpus),
    )


def kv_capacity_tokens(model: Model, gpu: Accelerator, achieved: Achieved, *, gpus: int) -> int:
    """Tokens whose keys and values fit beside the weights.

    Errors:
        ValueError: none.
    """
    left = gpus * gpu.memory_bytes * achieved.memory_usable - model.weight_bytes
    if left < model.kv_bytes:
        raise ValueError(
            f"{model.weight_bytes / 1e9:.0f} GB of weights leave no room for keys and values in {gpus} GPUs"
            f" of {gpu.memory_bytes / 1e9:.0f} GB"
        )
    return int(left / model.kv_bytes)


def gpus_an_engine(model: Model, gpu: Accelerator, achieved: Achieved) -> int:
    """The smallest power of two whose memory is filled at most two thirds by weights (*choice*)."""
    gpus = 1
    while model.weight_bytes > gpus * gpu.memory_bytes * achieved.memory_usable * 2 / 3:
        gpus *= 2
    return gpus


def trainer_s_per_token(
    model: Model, gpu: Accelerator, achieved: Achieved, *, gpus: float, flops_a_parameter: float
) -> float:
    """Seconds of `gpus` GPUs a token: 6 FLOPs a parameter to train, 2 more for each forward pass besides."""
    speed = gpus * gpu.flops_per_s * achieved.training_flops
    return flops_a_parameter * model.parameters_active / speed


def trainer_gpus_needed(model: Model, gpu: Accelerator, achieved: Achieved, *, copies: int = 1) -> int:
    """GPUs that hold weights, gradients and optimizer of `copies` models, a fifth left for the rest."""
    needed = copies * model.parameters_total * achieved.trainer_bytes_a_parameter
    return max(1, -int(-needed // (0.8 * gpu.memory_bytes)))


def push_s(model: Model, gpu: Accelerator, achieved: Achieved, *, senders: int) -> float:
    """Seconds until every engine holds new weights: one copy through the network of `senders` GPUs.

    They send in parallel, and engines hand on what they got (*choice*).
    """
    reached = achieved.network_experts if model.is_mixture else achieved.network_dense
    return model.weight_bytes / (senders * gpu.network_bytes_per_s * reached)


def switch_s(model: Model, achieved: Achieved, *, gpus: int) -> float:
    """Seconds in which GPUs that train and decode in turn bring the trainer's state to the host and back."""
    return 2 * model.parameters_total * achieved.trainer_bytes_a_parameter / gpus / achieved.host_bytes_per_s
