"""Weights over the wire, from a real trainer of two ranks to real engines: the same bits as from a folder,
under running requests, and whatever breaks on the way."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from full_runs.engine.digests import inventory
from full_runs.engine.sampling import Sampling
from tests.full_runs.real import needs_engines, now, options, saved_model, serving, vllm_digests

pytestmark = needs_engines()
PROMPT = [1, 2, 3]
LOOPBACK = "127.0.0.1"
TIMEOUT_S = 20.0
NORM = "model.layers.1.input_layernorm.weight"
COMPARED = 26
"""All tensors, and on a CPU two packed copies of the embeddings."""


@dataclasses.dataclass(frozen=True)
class Both:
    """A trainer that has learned a little, and what starts engines of its first weights."""

    trainer: Any
    start: Path
    saved: Path
    """What the trainer holds, written by itself."""
    place: Path

    def server(self, name: str) -> Any:
        from full_runs.engine.launch import GLOO
        from full_runs.engine.server import Server

        how = dataclasses.replace(options(), weight_transfer=GLOO)
        return Server(self.start, log=self.place / f"{name}.txt", options=how)

    def wire(self) -> Any:
        from full_runs.push_wire import OverWire

        return OverWire(self.trainer, LOOPBACK, workers=1, timeout_s=TIMEOUT_S)

    def pusher(self, keys: str = "recompute") -> Any:
        from full_runs.push import Pusher

        return Pusher(wanted=inventory(self.start), keys=keys)  # type: ignore[arg-type]

    def log_probs(self, folder: Path, prompt: list[int], answer: Any) -> torch.Tensor:
        """Of an answer, by transformers."""
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *answer.token_ids]])).logits[0, len(prompt) - 1 : -1]
        return logits.log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    from algorithms.rollout import Rollout
    from full_runs.trainer.client import TrainerClient
    from full_runs.trainer.config import TrainerConfig
    from full_runs.trainer.message import batch_of

    place = tmp_path_factory.mktemp("wire")
    start = saved_model(place / "start", 0)
    config = TrainerConfig(model=str(start), estimator="grpo", learning_rate=0.02)
    rollouts = [
        Rollout(
            prompt_id=0, group_id=0, token_ids=(4, 5, 6 + number), action_mask=(True,) * 3,
            behaviour_log_probs=(-3.9,) * 3, policy_versions=(0,) * 3, reward=float(number % 2),
            truncated=False, temperature=1.0,
        )
        for number in range(4)
    ]  # fmt: skip
    with TrainerClient(place / "trainer").start(config, 2) as trainer:
        trainer.train(batch_of(rollouts), [PROMPT] * 4)
        trainer.save_weights(place / "saved")
        yield Both(trainer, start, place / "saved", place)


@pytest.fixture(scope="module")
def url(both: Both) -> Iterator[str]:
    """One engine, which can be told to fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "full_runs.engine.launch.EXTENSION_GLOO", "tests.full_runs.engine.breaking.BreaksOnRequest"
        )
        server = both.server("one")
    with serving(server) as url:
        yield url


def use(url: str, what: Callable[[Any], Any]) -> Any:
    """`what` with a client of its own event loop."""
    from full_runs.engine.client import EngineClient

    async def one() -> Any:
        async with EngineClient(url) as client:
            return await what(client)

    return now(one())


def folder(path: Path) -> Any:
    from full_runs.push_folder import InFolder

    return InFolder(path)


def test_both_ways_give_the_same_bits(both: Both, url: str) -> None:
    async def ask(client: Any) -> tuple[Any, ...]:
        pushes, held = [], []
        for weights in (both.wire(), folder(both.start), folder(both.saved), both.wire()):
            pushes.append(await both.pusher().push([client], weights, 1))
            held.append(await vllm_digests(client))
        return (
            pushes,
            held,
            await client.version(),
            await client.generate(PROMPT, sampling=Sampling(), max_tokens=30),
        )

    pushes, (wire, start, saved, again), version, answer = use(url, ask)
    assert [push.failed for push in pushes] == [()] * 4
    assert {(push.tensors, push.compared) for push in pushes} == {(24, COMPARED)}
    assert wire == saved == again != start
    assert version == "1"
    wanted = both.log_probs(both.saved, PROMPT, answer)
    assert torch.tensor(answer.log_probs) == pytest.approx(wanted, abs=1e-5)
    assert not (both.place / "trainer" / "lines.json").exists()


@pytest.mark.parametrize("keys", ["keep", "recompute"])
def test_a_rollout_that_crosses_a_push_has_the_version_of_every_token(
    both: Both, url: str, keys: str
) -> None:
    async def ask(client: Any) -> Any:
        await both.pusher(keys).push([client], folder(both.start), 0)
        await client.generate(PROMPT, sampling=Sampling(), max_tokens=4)  # the first is slow
        asked = asyncio.create_task(client.generate(PROMPT, sampling=Sampling(), max_tokens=240))
        await asyncio.sleep(0.1)
        pushed = await both.pusher(keys).push([client], both.wire(), 1)
        return pushed, await asked

    pushed, answer = use(url, ask)
    assert (pushed.engines, pushed.version) == ((0,), 1)
    assert sorted(answer.versions) == list(answer.versions)
    old = answer.versions.count(0)
    assert 0 < old < 240
    found, under_old, under_new = (
        torch.tensor(answer.log_probs),
        both.log_probs(both.start, PROMPT, answer),
        both.log_probs(both.saved, PROMPT, answer),
    )
    assert found[:old] == pytest.approx(under_old[:old], abs=1e-5)
    apart = (found - under_new)[old:].abs().max().item()
    assert (apart < 1e-5) is (keys == "recompute")


def test_a_missing_and_an_extra_tensor_are_named_and_touch_no_engine(both: Both, url: str) -> None:
    from full_runs.push import Pusher

    wanted = dict(inventory(both.start))
    wanted["model.other.weight"] = wanted.pop("model.norm.weight")

    async def ask(client: Any) -> tuple[str, str]:
        await both.pusher().push([client], folder(both.start), 7)
        with pytest.raises(ValueError, match="cannot be pushed") as refused:
            await Pusher(wanted=wanted).push([client], both.wire(), 8)
        await client.generate(PROMPT, sampling=Sampling(), max_tokens=4)  # it goes on
        with pytest.raises(ValueError, match="they are float32, and engines' bfloat16"):
            await Pusher(wanted=inventory(both.start), dtype=torch.bfloat16).push([client], both.wire(), 8)
        return str(refused.value), await client.version()

    said, version = use(url, ask)
    assert "missing: model.other.weight; not of this model: model.norm.weight" in said
    assert version == "7"


async def break_next(client: Any, pushes: int) -> None:
    """Its worker fails in so many pushes, when half of the tensors are there."""
    await client._workers("break_next", str(pushes))


def test_an_engine_that_fails_half_way_is_tried_again_and_holds_the_weights_whole(
    both: Both, url: str
) -> None:
    async def ask(client: Any) -> tuple[Any, Any]:
        await both.pusher().push([client], folder(both.start), 0)
        await break_next(client, 1)
        pushed = await both.pusher().push([client], both.wire(), 1)
        held = await vllm_digests(client)
        await both.pusher().push([client], folder(both.saved), 1)
        return pushed, held == await vllm_digests(client)

    pushed, same = use(url, ask)
    assert (pushed.engines, pushed.failed, pushed.compared) == ((0,), (), COMPARED)
    assert same


def test_an_engine_that_fails_twice_stands_still_until_it_gets_whole_weights(both: Both, url: str) -> None:
    async def ask(client: Any) -> Any:
        await both.pusher().push([client], folder(both.start), 0)
        await break_next(client, 2)
        failed = await both.pusher().push([client], both.wire(), 1)
        waiting = asyncio.create_task(client.generate(PROMPT, sampling=Sampling(), max_tokens=20))
        done, _ = await asyncio.wait([waiting], timeout=2.0)
        assert not done
        pushed = await both.pusher().push([client], both.wire(), 1)
        return failed, pushed, await waiting

    failed, pushed, answer = use(url, ask)
    assert (failed.engines, [place for place, _ in failed.failed]) == ((), [0])
    assert pushed.engines == (0,)
    assert set(answer.versions) == {1}
    wanted = both.log_probs(both.saved, PROMPT, answer)
    assert torch.tensor(answer.log_probs) == pytest.approx(wanted, abs=1e-5)


def told_otherwise(what: str, value: Any) -> type[Any]:
    """A client whose engine is told something else of one tensor than what the trainer sends."""
    from full_runs.engine.client import EngineClient

    class Otherwise(EngineClient):  # type: ignore[misc]
        async def update_weights(self, update: Any) -> None:
            said = list(update[what])
            said[update["names"].index(NORM)] = value
            await super().update_weights({**update, what: said})

    return Otherwise


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("shapes", [8], f"{NORM} \\(float32, 8\\)"),
        ("shapes", [128], f"{NORM} \\(float32, 128\\)"),
        ("dtype_names", "bfloat16", f"{NORM} \\(bfloat16, 64\\)"),
        ("names", "model.other.weight", r"model.other.weight \(float32, 64\)"),
    ],
)
def test_a_tensor_of_another_size_than_expected_is_named_before_anything_is_sent(
    both: Both, url: str, what: str, value: Any, said: str
) -> None:
    """Gloo would end the engine's worker; it stands still until the next ones come."""

    async def ask(client: Any) -> Any:
        await both.pusher().push([client], folder(both.start), 0)
        async with told_otherwise(what, value)(client.url) as other:
            failed = await both.pusher().push([other], both.wire(), 1)
        return failed, await both.pusher().push([client], both.wire(), 1)

    failed, pushed = use(url, ask)
    assert failed.engines == ()
    assert re.search(rf"that comes is {NORM} \(float32, 64\), and expected is {said}", failed.failed[0][1])
    assert failed.stood_still_s < TIMEOUT_S
    assert (pushed.engines, pushed.compared) == ((0,), COMPARED)


def test_an_engine_that_dies_in_a_push_is_replaced_and_the_others_do_not_wait(both: Both) -> None:
    """Killed when it has taken half of the tensors; a new one gets what the trainer holds."""
    from full_runs.controller.engines import Engines

    notes: list[str] = []

    async def conduct() -> dict[str, Any]:
        changed = asyncio.Event()
        engines = Engines(
            [partial(both.server, name) for name in ("first", "second")],
            weights=folder(both.start), pusher=both.pusher(),
            most_restarts=1, slots=4, note=notes.append, changed=changed.set,
        )  # fmt: skip
        try:
            await engines.start()
            dying, other = engines.all
            take = dying.client.update_weights

            async def die(update: Any) -> None:
                await take({name: each[: len(each) // 2] for name, each in update.items()})
                dying.server.kill()

            dying.client.update_weights = die  # type: ignore[method-assign]
            pushed = await asyncio.wait_for(engines.push(both.wire(), 1), 60)
            meanwhile = await other.client.generate(PROMPT, sampling=Sampling(), max_tokens=20)
            while not dying.serves:
                changed.clear()
                await changed.wait()
            afterwards = await dying.client.generate(PROMPT, sampling=Sampling(), max_tokens=20)
            same = await vllm_digests(dying.client) == await vllm_digests(other.client)
            return {"pushed": pushed, "answers": (meanwhile, afterwards), "same": same}
        finally:
            await engines.close()

    seen = now(conduct())
    assert seen["pushed"].engines == (1,)
    assert [place for place, _ in seen["pushed"].failed] == [0]
    assert seen["pushed"].stood_still_s < TIMEOUT_S  # nobody waited for the dead one
    assert seen["same"]
    for answer in seen["answers"]:
        assert set(answer.versions) == {1}
        wanted = both.log_probs(both.saved, PROMPT, answer)
        assert torch.tensor(answer.log_probs) == pytest.approx(wanted, abs=1e-5)
    assert [note.split(":")[0] for note in notes] == ["engine 0 is started again"]
