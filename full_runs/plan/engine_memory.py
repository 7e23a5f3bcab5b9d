"""What lies in the memory of one GPU of an engine, and how many tokens' keys and values fit there?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from full_runs.plan.architecture import Architecture

WORKSPACE_BYTES: Final = 2e9
"""*Choice*: activations of vLLM's trial batch and its CUDA graphs, on each GPU."""
SAMPLER_BYTES: Final = 8
"""Of each logit of every request: float32, and its log-prob."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What an engine is made of."""

    tensor_parallel: int
    precision_bytes: int
    requests: int
    """That decode at once."""
    held_tokens: float
    """Whose keys and values they have, a request, on average."""


def engine_bytes(model: Architecture, share: Share) -> Mapping[str, float]:
    """By what it is for, on one GPU."""
    return {
        "weights": model.total * share.precision_bytes / share.tensor_parallel,
        "vLLM's workspace and logits": workspace_bytes(model, share.requests),
        "keys and values of the wanted rollouts": share.requests
        * share.held_tokens
        * kv_bytes_a_gpu(model, share),
    }


def workspace_bytes(model: Architecture, requests: int) -> float:
    return WORKSPACE_BYTES + SAMPLER_BYTES * requests * model.vocabulary


def kv_bytes_a_gpu(model: Architecture, share: Share) -> float:
    """Of one token: GPUs share the heads, and beyond as many as there are, each has a copy of one."""
    parts = min(share.tensor_parallel, model.kv_heads)
    return model.kv_numbers * share.precision_bytes / parts


def capacity_tokens(model: Architecture, share: Share, budget_bytes: float) -> int:
    """Keys and values that fit into an engine whose GPUs give it `budget_bytes` each; below 1, none do."""
    weights = model.total * share.precision_bytes / share.tensor_parallel
    left = budget_bytes - weights - workspace_bytes(model, share.requests)
    return int(left / kv_bytes_a_gpu(model, share))
