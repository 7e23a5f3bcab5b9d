"""Two real engines, one of which dies in the middle of a push: nobody ever serves a mixed set of weights."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from full_runs.engine.sampling import Sampling
from tests.full_runs.real import needs_engines, now, options, saved_model

pytestmark = needs_engines()
PROMPT = [1, 2, 3]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a push over two engines does of which one dies after it has taken half of its steps."""
    from full_runs.controller.engines import Engines
    from full_runs.engine.digests import inventory
    from full_runs.engine.server import Server
    from full_runs.push import Pusher
    from full_runs.push_folder import InFolder

    place: Path = tmp_path_factory.mktemp("engines")
    old, new = saved_model(place / "old", 0), saved_model(place / "new", 1)
    notes: list[str] = []

    async def conduct() -> dict[str, Any]:
        changed = asyncio.Event()
        logs = [place / "logs" / name for name in ("first", "second")]
        engines = Engines(
            [partial(Server, old, log=log, options=options()) for log in logs],
            weights=InFolder(old), pusher=Pusher(wanted=inventory(old)),
            most_restarts=1, slots=4, note=notes.append, changed=changed.set,
        )  # fmt: skip
        try:
            await engines.start()
            dying, other = engines.all
            take = dying.client.take_weights

            async def die(folder: str) -> Any:
                """It takes the weights, and is gone before anybody could ask what it holds."""
                taken = await take(folder)
                dying.server.kill()
                return taken

            dying.client.take_weights = die  # type: ignore[method-assign]
            pushed = await engines.push(InFolder(new), 1)
            chosen = engines.choose()
            meanwhile = await other.client.generate(PROMPT, sampling=Sampling(), max_tokens=20)
            while not dying.serves:
                changed.clear()
                await changed.wait()
            afterwards = await dying.client.generate(PROMPT, sampling=Sampling(), max_tokens=20)
            # Again, and there is no restart left.
            dying.server.kill()
            engines.lost(dying, "killed")
            last = await engines.push(InFolder(old), 2)
            return {
                "pushed": pushed, "chosen": chosen.place, "meanwhile": meanwhile, "afterwards": afterwards,
                "last": last, "out": dying.out, "is_left": engines.is_left(), "new": new,
            }  # fmt: skip
        finally:
            await engines.close()

    return now(conduct()) | {"notes": notes}


def test_the_other_engine_takes_the_weights_and_goes_on(seen: dict[str, Any]) -> None:
    assert seen["pushed"].engines == (1,)
    ((place, why),) = seen["pushed"].failed
    assert place == 0
    assert "does not answer" in why
    assert seen["chosen"] == 1
    assert set(seen["meanwhile"].versions) == {1}


def test_the_one_that_died_comes_back_with_the_new_weights_whole(seen: dict[str, Any]) -> None:
    from transformers import AutoModelForCausalLM

    answer = seen["afterwards"]
    assert set(answer.versions) == {1}
    model = AutoModelForCausalLM.from_pretrained(seen["new"], dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT, *answer.token_ids]])).logits[0, len(PROMPT) - 1 : -1]
    said = logits.log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
    assert torch.tensor(answer.log_probs) == pytest.approx(said, abs=1e-5)


def test_one_that_dies_too_often_is_taken_out_with_the_reason(seen: dict[str, Any]) -> None:
    assert seen["out"] == "killed"
    assert seen["is_left"]
    assert seen["last"].engines == (0,)  # of those that serve: the other one
    assert [note.split(":")[0] for note in seen["notes"]] == [
        "engine 0 is started again",
        "engine 0 is taken out after 1 restarts",
    ]
