r"""What lies in the memory of one GPU of the trainer?

FSDP2 shards everything that lasts: float32 weights (they are the master weights; bfloat16 copies are gathered
when a block runs), gradients, and Adam's two moments, 16 bytes a parameter over R ranks. What passes is whole
on every rank: gathered weights, and the activations of a micro-batch.

Policy and critic are trained in turn, so only one of them has activations at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from full_runs.plan.architecture import Architecture

SINGLE: Final = 4
"""Bytes of a float32."""
SPARE: Final = 0.1
"""*Choice*: share of a GPU that CUDA, NCCL's buffers and holes between blocks take."""
PASSING: Final = ("gathered weights and gradients", "activations", "logits")
"""Of `trainer_bytes`, what more ranks do not make smaller."""
LOGITS_AT_ONCE: Final = 2**25
"""The trainer's own limit, see `full_runs.trainer.model`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a trainer is made of."""

    ranks: int
    precision_bytes: int
    """Of a number in the passes."""
    micro_batch_tokens: int
    checkpointed: bool
    critic: bool
    attention_frozen: bool = True
    """In the critic."""
    reference: bool = False
    """A copy of the starting policy stands beside."""


def trainer_bytes(model: Architecture, load: Load) -> Mapping[str, float]:
    """By what it is for; their sum is the peak."""
    ranks = load.ranks
    rows = {
        "master weights, float32": SINGLE * model.total / ranks,
        "gradients, float32": SINGLE * model.total / ranks,
        "Adam's moments, float32": 2 * SINGLE * model.total / ranks,
    }
    if load.critic:
        trained = critic_trained(model, attention_frozen=load.attention_frozen)
        rows |= {
            "critic: master weights": SINGLE * critic_parameters(model) / ranks,
            "critic: gradients": SINGLE * trained / ranks,
            "critic: Adam's moments": 2 * SINGLE * trained / ranks,
        }
    if load.reference:
        rows["reference: weights"] = SINGLE * model.total / ranks
    others = int(load.critic) + int(load.reference)
    return rows | {
        "gathered weights and gradients": gathered_bytes(model, load.precision_bytes, others=others),
        "activations": activation_bytes(
            model, load.micro_batch_tokens, load.precision_bytes, checkpointed=load.checkpointed
        ),
        "logits": logits_bytes(model, load.micro_batch_tokens, load.precision_bytes),
    }


def critic_parameters(model: Architecture) -> int:
    """The policy's body, and a head of one number with its bias."""
    return model.body + model.hidden + 1


def critic_trained(model: Architecture, *, attention_frozen: bool) -> int:
    """Those that have gradients and moments."""
    return critic_parameters(model) - (model.layers * model.attention if attention_frozen else 0)


def gathered_bytes(model: Architecture, precision_bytes: int, *, others: int = 0) -> float:
    """Whole tensors while a block runs: the root's weights, those of two blocks (one is fetched ahead), and
    gradients of the root and one block, once more in float32 to be reduced where passes are in less.

    Args:
        others: networks beside it. FSDP2 leaves a root gathered after a forward pass: their embeddings.
    """
    root = model.total - model.layers * model.block
    gradient = precision_bytes + (SINGLE if precision_bytes < SINGLE else 0)
    weights = root + others * model.embedding + 2 * model.block
    return precision_bytes * weights + gradient * (root + model.block)


def activation_bytes(model: Architecture, tokens: int, precision_bytes: int, *, checkpointed: bool) -> float:
    """Kept for the backward pass: all of every block; or each block's input, and all of one block."""
    block = block_activation_bytes(model, precision_bytes)
    if not checkpointed:
        return tokens * model.layers * block
    return tokens * (model.layers * precision_bytes * model.hidden + block)


def block_activation_bytes(model: Architecture, precision_bytes: int) -> float:
    r"""Bytes that one block keeps of one token, at b bytes a number.

    .. math:: b (4 h + 3 d (H + K) + M) + 4 (2 h + d (H + K) + 2 + 2 H + K)

    with M = 4 m in a dense block; in a mixture k (4 m + 2 h), and 8 E + 16 k bytes for the router. Norms keep
    their input, and what they divided by, in float32. Attention is computed in tiles: one number a head.

    Counted in transformers 5.19 (a test compares); kernels that fuse norms or activations keep less.
    """
    h, both = model.hidden, model.head_dim * (model.heads + model.kv_heads)
    inside, mixture = 4.0 * model.intermediate, 0.0
    if model.experts > 1:
        inside = model.experts_per_token * (4.0 * model.intermediate + 2 * h)
        mixture = 8.0 * model.experts + 16.0 * model.experts_per_token
    in_passes = 4 * h + 3 * both + inside
    in_single = 2 * h + both + 2 + 2 * model.heads + model.kv_heads
    return precision_bytes * in_passes + SINGLE * in_single + mixture


def logits_bytes(model: Architecture, tokens: int, precision_bytes: int) -> float:
    """Of one piece of the head: logits as computed, in float32, and two of their gradients."""
    logits = min(LOGITS_AT_ONCE, tokens * model.vocabulary)
    return float(logits * (precision_bytes + 3 * SINGLE))
