"""Questions and conversations through a real engine, with a tiny model of bytes; then a whole run of them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from full_runs.tasks.play import Played, patient, play
from tests.full_runs.real import needs_engines, now, options, serving
from tests.full_runs.tasks.byte_model import saved_model
from tests.full_runs.tasks.verifiers_environments import written

pytestmark = needs_engines()
PYTHON = os.environ.get("POLICYLAG_VERIFIERS_PYTHON")
needs_verifiers = pytest.mark.skipif(PYTHON is None, reason="POLICYLAG_VERIFIERS_PYTHON names no interpreter")
PROMPT, RESPONSE = 100, 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("text")
    asked = [{"prompt": f"{n} + 1?", "answer": str(n + 1)} for n in range(40)]
    (place / "questions.jsonl").write_text("\n".join(json.dumps(each) for each in asked))
    written(place)
    return saved_model(place, positions=256)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    from full_runs.engine.server import Server

    with serving(Server(folder, log=folder / "log.txt", options=options())) as url:
        yield url


def verifiers(name: str) -> Any:
    from full_runs.configs.text_worlds import Verifiers

    return Verifiers(id=name, python=PYTHON, variables=("PYTHONPATH",), workers=2)


def world_of(folder: Path, asked: Any) -> Any:
    from full_runs.configs.record import FullConfig
    from full_runs.run import world_of

    return world_of(
        FullConfig(model=str(folder), world=asked, max_prompt_tokens=PROMPT, max_response_tokens=RESPONSE)
    )


def all_played(url: str, world: Any, count: int) -> list[Played]:
    from full_runs.engine.client import EngineClient
    from full_runs.engine.sampling import Sampling

    async def each(client: Any, number: int) -> Played:
        generate = partial(client.generate, sampling=Sampling())
        return await play(
            world.episode(number), generate, prompt_id=number, group_id=number, temperature=1.0,
            clock=lambda: 0.0, within=patient(120.0),
        )  # fmt: skip

    async def everything() -> list[Played]:
        try:
            async with EngineClient(url) as client:
                await client.set_version(0)
                return await asyncio.gather(*(each(client, number) for number in range(count)))
        finally:
            await world.close()

    return now(everything())


def are_those_of_the_model(folder: Path, all_of_them: list[Played]) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for played in all_of_them:
        ids = torch.tensor(played.rollout.token_ids)
        with torch.no_grad():
            logits = model(torch.tensor([[*played.prompt, *ids]])).logits[0, len(played.prompt) - 1 : -1]
        theirs = logits.log_softmax(-1).gather(1, ids[:, None])[:, 0]
        chosen = torch.tensor(played.rollout.action_mask)
        ours = torch.tensor(played.rollout.behaviour_log_probs)
        assert ours[chosen] == pytest.approx(theirs[chosen], abs=1e-5)
        assert (ours[~chosen] == 0).all()


def test_ids_are_the_engine_s_although_their_text_would_be_encoded_otherwise(folder: Path, url: str) -> None:
    from full_runs.configs.text_worlds import Questions

    world = world_of(folder, Questions(path=str(folder / "questions.jsonl")))
    words = world.tokenizer
    all_of_them = all_played(url, world, 36)
    are_those_of_the_model(folder, all_of_them)
    assert {played.prompt for played in all_of_them} == {
        world.asked(f"{n} + 1?") for n in range(40) if n % 10 != 9
    }
    said = [played.rollout.token_ids for played in all_of_them]
    assert any(words.encode(words.decode(ids)) != ids for ids in said)  # random bytes are seldom UTF-8
    for played in all_of_them:
        ended = played.rollout.token_ids[-1] in words.ends
        assert played.rollout.truncated is not ended
        assert ended or len(played.rollout.token_ids) == RESPONSE


@needs_verifiers
def test_a_conversation_of_several_turns(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    world = world_of(folder, verifiers("chatting"))
    all_of_them = all_played(url, world, 48)
    are_those_of_the_model(folder, all_of_them)
    several = [played for played in all_of_them if played.turns > 1]
    assert several  # a turn ends with one token of 258
    for played in several:
        assert b"\n<|im_start|>user" not in bytes(t for t in played.rollout.token_ids if t < 256)
        assert not all(played.rollout.action_mask)
    whole = [played for played in all_of_them if not played.rollout.truncated]
    assert all(played.rollout.reward == played.turns == 2 for played in whole)


@pytest.mark.parametrize("kind", ["questions", pytest.param("verifiers", marks=needs_verifiers)])
def test_a_whole_run(kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from full_runs.configs.record import FullConfig
    from full_runs.configs.text_worlds import Questions
    from full_runs.run import run_config

    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[3]}")
    path = str(folder / "questions.jsonl")
    config = FullConfig(
        model=str(folder), world=Questions(path=path) if kind == "questions" else verifiers("chatting"),
        max_prompt_tokens=PROMPT, max_response_tokens=RESPONSE, updates=3, rollouts_per_update=8, in_flight=8,
        critic_only_updates=0, measure_every=3, held_out=4, engine_ready_timeout_s=1500.0,
    )  # fmt: skip
    failed = now(run_config(config, out=tmp_path, arm=kind, say=print, told=lambda *_: None))
    assert not any(failed.values())
    rollouts = pd.read_parquet(tmp_path / "run" / "rollouts.parquet")
    trained = rollouts[rollouts["status"] == "trained"]
    assert len(trained) == 24
    assert trained["action_tokens"].between(1, RESPONSE).all()
    updates = pd.read_parquet(tmp_path / "run" / "updates.parquet")
    assert list(updates["version"]) == [1, 2, 3]
