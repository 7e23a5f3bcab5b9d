"""A server's words and environment, on processors and on GPUs. Nothing is started."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from full_runs.engine.launch import ServerOptions, command, environment

ON_CPU = ServerOptions(max_model_tokens=64, threads=3, cpu_cache_gb=2)
ON_GPUS = ServerOptions(
    max_model_tokens=9216, dtype="bfloat16", tensor_parallel=2, gpus=(2, 3), gpu_memory=0.4
)


def said(options: ServerOptions, flag: str) -> str:
    words = command(Path("model"), 8001, options)
    return words[words.index(flag) + 1]


def test_a_server_listens_on_loopback_and_reports_processed_log_probs() -> None:
    for options in (ON_CPU, ON_GPUS):
        assert said(options, "--host") == "127.0.0.1"
        assert said(options, "--logprobs-mode") == "processed_logprobs"


@pytest.mark.parametrize("shared", [True, False])
def test_prefixes_are_shared_or_not_and_never_by_the_engines_own_default(shared: bool) -> None:
    words = command(Path("m"), 1, ServerOptions(max_model_tokens=64, prefix_caching=shared))
    assert ("--enable-prefix-caching" in words, "--no-enable-prefix-caching" in words) == (shared, not shared)


def test_settings_of_gpus_reach_the_command_line() -> None:
    assert said(ON_GPUS, "--dtype") == "bfloat16"
    assert said(ON_GPUS, "--tensor-parallel-size") == "2"
    assert said(ON_GPUS, "--gpu-memory-utilization") == "0.4"
    assert "--enforce-eager" not in command(Path("m"), 1, ON_GPUS)


def test_processors_are_told_of_no_gpu_and_gpus_of_no_processor() -> None:
    assert "--gpu-memory-utilization" not in command(Path("m"), 1, ON_CPU)
    assert "--enforce-eager" in command(Path("m"), 1, ON_CPU)
    cpu, gpus = environment(ON_CPU, {}), environment(ON_GPUS, {})
    assert (cpu["OMP_NUM_THREADS"], cpu["VLLM_CPU_KVCACHE_SPACE"]) == ("3", "2")
    assert "CUDA_VISIBLE_DEVICES" not in cpu
    assert not [name for name in gpus if "CPU" in name or "OMP" in name]


@pytest.mark.parametrize(
    ("inherited", "wanted"),
    [
        ({}, "2,3"),
        ({"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, "6,7"),
        ({"CUDA_VISIBLE_DEVICES": "a, b,c ,d"}, "c,d"),
    ],
)
def test_an_engine_sees_its_own_gpus_of_those_that_its_controller_may_use(
    inherited: dict[str, str], wanted: str
) -> None:
    assert environment(ON_GPUS, inherited)["CUDA_VISIBLE_DEVICES"] == wanted


@pytest.mark.parametrize("known", ["", "0", "0,1,2"])
def test_gpus_that_are_not_there_are_refused(known: str) -> None:
    with pytest.raises(ValueError, match="GPU 3 of it is wanted"):
        environment(ON_GPUS, {"CUDA_VISIBLE_DEVICES": known})


def test_cores_come_first_and_change_nothing_else() -> None:
    free = command(Path("m"), 1, ON_CPU)
    pinned = command(Path("m"), 1, dataclasses.replace(ON_CPU, cores=(2, 3, 4)))
    assert pinned[-len(free) :] == free
    assert pinned[: -len(free)][1:] == ["-m", "full_runs.pinned", "2,3,4"]
