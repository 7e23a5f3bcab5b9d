"""Settings of a run, as its trainer and its engines are told them. Nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the engine's client is not installed here")
pytest.importorskip("transformers", reason="transformers is not installed: make full")

from full_runs.configs.ready_gpus import qwen3_06b, qwen3_8b
from full_runs.configs.record import FullConfig
from full_runs.controller.course import server_options
from full_runs.run import trainer_config

MODEL = Path("model")


def test_processors_are_the_default_in_single_precision() -> None:
    told, options = trainer_config(FullConfig(), MODEL), server_options(FullConfig(), 10, 0)
    assert (told.device, told.precision, told.packed, told.checkpointed) == ("cpu", "float32", False, False)
    assert (options.gpus, options.dtype, options.max_requests) == ((), "float32", 64)
    assert options.max_model_tokens >= 10


def test_the_trainer_is_told_how_to_compute() -> None:
    config = FullConfig(
        precision="bfloat16", packed=True, checkpointed=True, tokens_at_once=99, max_gradient_norm=0.5
    )
    told = trainer_config(config, MODEL)
    for name in ("precision", "packed", "checkpointed", "tokens_at_once", "max_gradient_norm"):
        assert getattr(told, name) == getattr(config, name)


def test_on_gpus_each_engine_has_its_own_and_the_trainer_the_others() -> None:
    config = qwen3_8b()
    options = [server_options(config, config.longest_tokens, place) for place in range(2)]
    assert [own.gpus for own in options] == [(6,), (7,)]
    assert {own.dtype for own in options} == {trainer_config(config, MODEL).precision} == {"bfloat16"}
    assert {own.max_model_tokens for own in options} == {9216}
    assert trainer_config(config, MODEL).device == "cuda"
    assert config.placement().of_trainer(0) == tuple(range(6))


def test_on_one_gpu_the_engine_takes_its_share_of_the_trainers() -> None:
    config = qwen3_06b()
    options = server_options(config, config.longest_tokens, 0)
    assert options.gpus == config.placement().of_trainer(0) == (0,)
    assert options.gpu_memory == config.engine_memory == 0.4


def test_each_engine_has_its_part_of_the_cores() -> None:
    config = FullConfig(engines=2, engine_cores="0-1,4-5", engine_threads=2)
    options = [server_options(config, 10, place) for place in range(2)]
    assert [(own.cores, own.threads) for own in options] == [((0, 1), 2), ((4, 5), 2)]
    assert server_options(FullConfig(), 10, 0).cores == ()
