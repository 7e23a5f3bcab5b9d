r"""How long do a decode step, an update and a push take, on paper, and what pipeline does that make?

Decoding and pushes are the planner's (`simulator.planner.roofline`). An update of the trainer adds up forward
passes (2 FLOPs a parameter and token), backward passes (4) and, if checkpointed, blocks computed again (2).
Over several nodes each micro-batch waits for the network where that is slower than computing:

.. math:: t = \max\left(\frac{F N_{active} T}{\text{speed}},
    \frac{(n - 1) P}{n \cdot \text{bandwidth of a node}}\right)

P being the bytes of weights gathered and gradients reduced. Within a node this is left out (*choice*).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Final, final

from full_runs.configs.record import FullConfig
from full_runs.plan.architecture import Architecture
from full_runs.plan.engine_memory import Share, capacity_tokens, kv_bytes_a_gpu
from full_runs.plan.trainer_memory import SINGLE
from simulator.config import PipelineConfig
from simulator.planner import roofline
from simulator.planner.accelerators import ACCELERATORS, Accelerator, Achieved
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import LogNormal, mean_tokens

BYTES: Final = {"float32": 4, "bfloat16": 2}
ACHIEVED: Final = Achieved()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Over one update's tokens."""

    scored: int
    """Forward passes without gradient."""
    trained: int
    """Forward and backward passes."""
    checkpointed: bool

    @property
    def flops_a_parameter(self) -> int:
        again = roofline.FORWARD if self.checkpointed else 0
        return roofline.FORWARD * self.scored + (roofline.FORWARD_BACKWARD + again) * self.trained

    def network_bytes(self, model: Architecture, precision_bytes: int) -> float:
        """Of a micro-batch: weights gathered for each pass, gradients reduced in float32."""
        gathers = self.scored + 2 * self.trained  # blocks are gathered once more to go backward
        return float(model.total * (gathers * precision_bytes + self.trained * SINGLE))


def lengths(config: FullConfig) -> LogNormal:
    """Of responses, as expected."""
    return LogNormal(
        mean_tokens=config.mean_response_tokens,
        sd_tokens=config.sd_response_tokens,
        max_tokens=config.max_response_tokens,
    )


def tokens_per_update(config: FullConfig) -> float:
    """Prompts and responses, on average; every prompt counts as the longest (*choice*)."""
    return config.rollouts_per_update * (config.max_prompt_tokens + mean_tokens(lengths(config)))


def micro_batches(config: FullConfig) -> int:
    """Of an update, on each rank."""
    if config.tokens_at_once is None:
        return 1
    return math.ceil(tokens_per_update(config) / config.ranks / config.tokens_at_once)


def speed(config: FullConfig) -> Accelerator:
    """A GPU; where trainer and engine share it, each has half of its time (*choice*: both always work)."""
    gpu = ACCELERATORS[config.accelerator]
    if not config.shares_a_gpu:
        return gpu
    return dataclasses.replace(
        gpu, flops_per_s=gpu.flops_per_s / 2, memory_bytes_per_s=gpu.memory_bytes_per_s / 2
    )


def decoding(config: FullConfig, model: Architecture, share: Share) -> LoadDependent:
    """The law of an engine.

    Errors:
        ValueError: the weights leave no memory for keys and values.
    """
    gpu = ACCELERATORS[config.accelerator]
    fits = capacity_tokens(model, share, config.engine_memory * gpu.memory_bytes)
    law = roofline.decoding(
        of_roofline(model, share),
        speed(config),
        ACHIEVED,
        gpus=share.tensor_parallel,
        rollouts=share.requests,
    )
    return law.model_copy(update={"kv_capacity_tokens": fits})


def of_roofline(model: Architecture, share: Share) -> roofline.Model:
    """The planner's record of the same model; each copy of keys and values is read."""
    return roofline.Model(
        parameters_total=model.total,
        parameters_active=model.active,
        layers=model.layers,
        kv_bytes_a_token=kv_bytes_a_gpu(model, share) * share.tensor_parallel,
        bytes_a_parameter=share.precision_bytes,
    )


def update_s(config: FullConfig, model: Architecture, passes: Passes) -> tuple[float, float]:
    """Seconds of an update that do not depend on its tokens (waits for the network, at the expected number),
    and seconds a token."""
    gpu, rank_tokens = speed(config), tokens_per_update(config) / config.ranks
    a_token_s = passes.flops_a_parameter * model.active / (gpu.flops_per_s * ACHIEVED.training_flops)
    nodes = math.ceil(config.ranks / config.gpus_per_node)
    pieces = micro_batches(config)
    node_bytes_per_s = min(config.ranks, config.gpus_per_node) * gpu.network_bytes_per_s
    moved = passes.network_bytes(model, BYTES[config.precision]) * (nodes - 1) / nodes
    network_s = pieces * moved / (node_bytes_per_s * ACHIEVED.network_dense)
    waits_s = max(0.0, network_s - a_token_s * rank_tokens)
    return waits_s, a_token_s / config.ranks


def timed(
    config: FullConfig, model: Architecture, share: Share, *, policy: Passes, critic: Passes | None
) -> PipelineConfig:
    """The configuration's pipeline, with these times in it.

    Args:
        policy: its passes in an update.
        critic: those of one of its K fits are the trained ones; None without a critic.
    """
    base = config.pipeline()
    waits_s, token_s = update_s(config, model, policy)
    prompts = config.rollouts_per_update * config.max_prompt_tokens
    fields: dict[str, object] = {
        "engine": decoding(config, model, share).model_dump(),
        "prompt_tokens": config.max_prompt_tokens,
        "policy_update_s": waits_s + token_s * prompts,
        "policy_update_s_per_token": token_s,
        "push_s": push_s(config, model, share),
        "lengths": lengths(config).model_dump(),
    }
    if critic is not None:
        waits_s, token_s = update_s(config, model, critic)
        whole_s = waits_s + token_s * tokens_per_update(config)
        fields |= {"critic_updates": critic.trained, "critic_update_s": whole_s / critic.trained}
    return PipelineConfig.model_validate(base.model_dump() | fields)


def push_s(config: FullConfig, model: Architecture, share: Share) -> float:
    """Through the network of the trainer's first node (*choice*); over a folder it depends on its disks."""
    senders = min(config.ranks, config.gpus_per_node)
    gpu = ACCELERATORS[config.accelerator]
    return roofline.push_s(of_roofline(model, share), gpu, ACHIEVED, senders=senders)
