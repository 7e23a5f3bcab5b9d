"""What has this machine not that a run needs, and what must be said before its parts can meet?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Set

from full_runs import pinned
from full_runs.configs.cores import SETTINGS, as_text, numbers
from full_runs.configs.record import FullConfig
from full_runs.engine.installed import installed


def gpus_seen() -> int:
    """That torch can use here."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def missing(
    config: FullConfig,
    *,
    seen: Callable[[], int] = gpus_seen,
    vllm: Callable[[], str] = installed,
    variables: Mapping[str, str] = os.environ,
    cores: Callable[[], Set[int] | None] = pinned.usable,
) -> list[str]:
    """Each in a few words; empty if nothing is known to be in the way.

    Args:
        seen: how many GPUs are here.
        vllm: which vLLM is here; raises RuntimeError for none.
        variables: of the environment.
        cores: that this process may use; None where none can be chosen.
    """
    here = _on_this_host(config, seen, vllm) if config.gpus else []
    return [*here, *_cores(config, cores), *_unsaid(config, variables)]


def _on_this_host(config: FullConfig, seen: Callable[[], int], vllm: Callable[[], str]) -> list[str]:
    lacking = []
    here, wanted = seen(), gpus_wanted(config)
    if here < wanted:
        count = {0: "no GPU is", 1: "only 1 GPU is"}.get(here, f"only {here} GPUs are")
        lacking.append(f"{count} seen here, of {wanted} wanted")
    if config.engine_urls:
        return lacking
    try:
        if (name := vllm()) != "vllm":
            lacking.append(f"vLLM is here without CUDA ({name})")
    except RuntimeError:
        lacking.append("vLLM with CUDA is not installed")
    return lacking


def _cores(config: FullConfig, usable: Callable[[], Set[int] | None]) -> list[str]:
    said = []
    for name in SETTINGS:
        if (text := getattr(config, name)) is None:
            continue
        if (here := usable()) is None:
            said.append(f"{name} is {text}, and on {sys.platform} no process can be kept on cores")
        elif absent := [core for core in numbers(text) if core not in here]:
            may = as_text(tuple(sorted(here)))
            said.append(f"{name} is {text}, core {absent[0]} included, and this process may use {may}")
    return said


def gpus_wanted(config: FullConfig) -> int:
    """On this host, the first node: of its ranks, and of engines that are started here."""
    placement = config.placement()
    engines = [] if config.engine_urls else [gpu for own in placement.engines for gpu in own]
    return len({number for node, number in (*placement.ranks, *engines) if node == 0})


def _unsaid(config: FullConfig, variables: Mapping[str, str]) -> list[str]:
    """Settings that a plan does without and a run does not."""
    said = []
    if config.trainer_nodes > 1 and config.rendezvous is None:
        said.append(f"trainer_nodes is {config.trainer_nodes} and rendezvous None: where do they meet?")
    far = config.placement().elsewhere() if config.gpus and not config.engine_urls else ()
    if far:
        said.append(
            f"{len(far)} of engines ({config.engines}) are on other hosts and engine_urls is empty: start"
            " them there and name them"
        )
    key = config.engine_api_key_variable if config.engine_urls else None
    if key is not None and not variables.get(key):
        said.append(f"engine_api_key_variable is {key}, and no such variable is set")
    return said
