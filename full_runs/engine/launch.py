"""With which words and which environment is a vLLM server started? Pure functions of its settings.

It listens on loopback only: an API key guards what vLLM calls its API, but not the paths that pause it and
change its weights.

What is said for GPUs has not been executed on one so far.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from full_runs import pinned
from full_runs.configs.placement import visible

HOST: Final = "127.0.0.1"
GLOO: Final = "policylag-gloo"
"""Our backend of vLLM's weight transfer, for processors; for GPUs it has `nccl`."""
EXTENSION: Final = "full_runs.engine.extension.TakesWeights"
EXTENSION_GLOO: Final = "full_runs.engine.gloo.TakesWeightsOverGloo"
"""The same, where `GLOO` is to be known."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a server is started with."""

    max_model_tokens: int
    """Prompt and response together."""
    max_requests: int = 64
    """Requests that decode at once; more wait in the engine."""
    dtype: str = "float32"
    """Of weights, keys and values, and of what is computed."""
    prefix_caching: bool = False
    """Keys of equal prefixes are shared between requests. Only where a push throws keys away: else a new
    request would begin with those of old weights."""
    tensor_parallel: int = 1
    gpus: tuple[int, ...] = ()
    """Numbers of its GPUs among those that this process may use; none: processors."""
    gpu_memory: float = 0.9
    """Share of each of them that it takes."""
    threads: int = 1
    """On processors."""
    cores: tuple[int, ...] = ()
    """On processors: it stays on these, with all its workers; none: anywhere."""
    cpu_cache_gb: int = 1
    """On processors: memory for keys and values."""
    weight_transfer: str | None = None
    """Backend of vLLM's weight transfer; None: weights come from folders."""
    ready_timeout_s: float = 900.0
    seed: int = 0


def command(model: Path, port: int, options: ServerOptions) -> list[str]:
    """The server's command line; `vllm serve` itself does not start from the CPU package."""
    words = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--host", HOST, "--port", str(port)),
        *("--dtype", options.dtype, "--max-model-len", str(options.max_model_tokens)),
        *("--max-num-seqs", str(options.max_requests), "--seed", str(options.seed)),
        *("--tensor-parallel-size", str(options.tensor_parallel)),
        *("--logprobs-mode", "processed_logprobs", "--enable-scale-out"),
        *("--worker-extension-cls", EXTENSION_GLOO if options.weight_transfer == GLOO else EXTENSION),
        *("--disable-uvicorn-access-log", "--generation-config", "vllm"),
        "--enable-prefix-caching" if options.prefix_caching else "--no-enable-prefix-caching",
    ]
    if options.weight_transfer is not None:
        words += ["--weight-transfer-config", json.dumps({"backend": options.weight_transfer})]
    if options.gpus:
        return [*words, "--gpu-memory-utilization", str(options.gpu_memory)]
    words.append("--enforce-eager")  # compiling takes longer than a tiny model's run
    return [*pinned.words([options.cores]), *words] if options.cores else words


def environment(options: ServerOptions, inherited: Mapping[str, str]) -> dict[str, str]:
    """Variables that a server needs beside those that it inherits.

    Raises:
        ValueError: `CUDA_VISIBLE_DEVICES` shows fewer GPUs than it is given.
    """
    ours = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    if options.gpus:
        return ours | {"CUDA_VISIBLE_DEVICES": visible(options.gpus, inherited.get("CUDA_VISIBLE_DEVICES"))}
    return ours | {
        "VLLM_CPU_KVCACHE_SPACE": str(options.cpu_cache_gb),
        # Bound to cores of their own, engines and trainer ranks of a small machine would share one.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(options.threads),
    }
