"""What has this machine not that a run on GPUs needs? And what has this project not, so far?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from full_runs.configs.record import FullConfig
from full_runs.engine.installed import installed

NOT_BUILT: Final = (
    "settings of GPUs that reach trainer and engines, weights pushed over NCCL and processes on other hosts"
    " are not built so far"
)


def gpus_seen() -> int:
    """That torch can use here."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def missing(
    config: FullConfig, *, seen: Callable[[], int] = gpus_seen, vllm: Callable[[], str] = installed
) -> list[str]:
    """Each in a few words; empty for a run on processors.

    Args:
        seen: how many GPUs are here.
        vllm: which vLLM is here; raises RuntimeError for none.
    """
    if not config.gpus:
        return []
    lacking = []
    here, wanted = seen(), min(config.gpus, config.gpus_per_node)
    if here < wanted:
        count = {0: "no GPU is", 1: "only 1 GPU is"}.get(here, f"only {here} GPUs are")
        lacking.append(f"{count} seen here, of {wanted} wanted on each node")
    try:
        if (name := vllm()) != "vllm":
            lacking.append(f"vLLM is here without CUDA ({name})")
    except RuntimeError:
        lacking.append("vLLM with CUDA is not installed")
    return [*lacking, NOT_BUILT]
