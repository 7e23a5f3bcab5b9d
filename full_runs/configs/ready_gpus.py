"""Ready settings for GPUs, planned by `--dry-run`. None has been executed on a GPU so far.

Every number here but the paper's is a *choice*.
"""

from __future__ import annotations

from typing import Any

from full_runs.configs.record import FullConfig
from full_runs.configs.text_worlds import Python, Questions
from simulator.config.staleness import BoundedLag
from simulator.systems.aged import SAO

_MATHEMATICS = Questions(path="questions.jsonl")


def qwen3_06b(**changes: Any) -> FullConfig:
    """Qwen3-0.6B, trainer and engine on one GPU, which they share."""
    ours: dict[str, Any] = {
        "model": "Qwen/Qwen3-0.6B", "gpus": 1, "engine_memory": 0.4,
        "in_flight": 128, "tokens_at_once": 8192,
        "max_response_tokens": 4096, "mean_response_tokens": 800.0, "sd_response_tokens": 600.0,
    }  # fmt: skip
    return _single_rollouts(ours | changes)


def qwen3_8b(**changes: Any) -> FullConfig:
    """Qwen3-8B on one node of 8. Six GPUs train: policy and critic do not fit into four."""
    ours: dict[str, Any] = {
        "model": "Qwen/Qwen3-8B", "gpus": 8, "ranks": 6, "engines": 2,
        "in_flight": 256, "tokens_at_once": 9216,
    }  # fmt: skip
    return _single_rollouts(ours | changes)


def qwen3_30b_a3b(**changes: Any) -> FullConfig:
    """Qwen3-30B-A3B, a mixture of experts, on 4 nodes of 8. Three nodes train: two are too small."""
    ours: dict[str, Any] = {
        "model": "Qwen/Qwen3-30B-A3B", "gpus": 32, "ranks": 24, "trainer_nodes": 3,
        "engines": 4, "tensor_parallel": 2,
        "in_flight": 512, "tokens_at_once": 9216,
    }  # fmt: skip
    return _single_rollouts(ours | changes)


def sao_paper(**changes: Any) -> FullConfig:
    """SAO as the paper states it for reasoning with tools: 128 single rollouts an update, some 1,000 updates,
    a band of (0.7, 6.0), K = 2, a critic with frozen attention at five times the policy's rate of 1e-6.

    The paper is silent on machines, rollouts in flight, the interval of pushes, a bound on age and lengths:
    these, and the model, are *choices*. A plan takes a response for one turn, whatever its tools do.

    References:
        Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
    """
    ours: dict[str, Any] = {
        "world": Questions(path="questions.jsonl", python=Python()),
        "model": "Qwen/Qwen3-30B-A3B", "gpus": 64, "ranks": 24, "trainer_nodes": 3,
        "engines": 20, "tensor_parallel": 2,
        "in_flight": 640, "tokens_at_once": 33_792, "staleness": SAO(),
        "max_response_tokens": 32_768, "mean_response_tokens": 12_000.0, "sd_response_tokens": 9000.0,
        "critic_learning_rate_ratio": 5.0, "critic_only_updates": 10,
    }  # fmt: skip
    return _single_rollouts(ours | changes)


def _single_rollouts(ours: dict[str, Any]) -> FullConfig:
    """What they have in common; `ours` comes first."""
    common: dict[str, Any] = {
        "world": _MATHEMATICS, "precision": "bfloat16", "packed": True, "checkpointed": True,
        "estimator": "sao", "learning_rate": 1e-6,
        "rollouts_per_update": 128, "updates": 1000, "staleness": BoundedLag(eta_batches=4),
    }  # fmt: skip
    return FullConfig(**(common | ours))
