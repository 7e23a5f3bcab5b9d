"""Ready settings by name, for `policylag full`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from full_runs.configs import ready_gpus
from full_runs.configs.record import FullConfig


def tiny_cpu(**changes: Any) -> FullConfig:
    """A model of 0.1 million parameters adds numbers, on two processors: minutes."""
    return FullConfig(**({"ranks": 2} | changes))


def tiny_cpu_groups(**changes: Any) -> FullConfig:
    """The same with groups of eight and without a critic."""
    ours: dict[str, Any] = {"ranks": 2, "estimator": "grpo_dis", "group_size": 8}
    # 32 prompts an update: many groups are all right or all wrong, and teach nothing.
    more = {"rollouts_per_update": 256, "in_flight": 128, "updates": 100}
    return FullConfig(**(ours | more | changes))


READY: Final[Mapping[str, Callable[[], FullConfig]]] = {
    "tiny-cpu": tiny_cpu,
    "tiny-cpu-groups": tiny_cpu_groups,
    "qwen3-0.6b-1gpu": ready_gpus.qwen3_06b,
    "qwen3-8b-8gpu": ready_gpus.qwen3_8b,
    "qwen3-30b-a3b-32gpu": ready_gpus.qwen3_30b_a3b,
    "sao-paper": ready_gpus.sao_paper,
}
