"""An engine that somebody else runs goes away, and comes back with the weights that it was started with.

It is asked again, given the newest weights before any request, and taken out when it stays silent.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from full_runs.engine.sampling import Sampling
from tests.full_runs.real import environment, needs_engines, now, options, saved_model

pytestmark = needs_engines()
PROMPT = [1, 2, 3]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the controller does of an engine that its owner kills, starts again, and kills for good."""
    from full_runs.controller.engines import Engines
    from full_runs.engine import launch
    from full_runs.engine.digests import inventory
    from full_runs.engine.elsewhere import Elsewhere
    from full_runs.engine.server import free_port
    from full_runs.push import Pusher
    from full_runs.push_folder import InFolder

    place: Path = tmp_path_factory.mktemp("elsewhere")
    old, new = saved_model(place / "old", 0), saved_model(place / "new", 1)
    port, notes = free_port(), list[str]()
    log = (place / "log.txt").open("ab")

    def by_its_owner() -> subprocess.Popen[bytes]:
        variables = environment(**launch.environment(options(), os.environ))
        words = launch.command(old, port, options())
        return subprocess.Popen(words, env=variables, stdout=log, stderr=log, start_new_session=True)

    def end(process: subprocess.Popen[bytes]) -> None:
        """With all of its workers."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    async def conduct() -> dict[str, Any]:
        changed = asyncio.Event()
        patient = replace(options(), ready_timeout_s=200.0)
        find = partial(Elsewhere, f"http://127.0.0.1:{port}", api_key=None, model=old, options=patient)
        engines = Engines(
            [find], weights=InFolder(old), pusher=Pusher(wanted=inventory(old)),
            most_restarts=1, slots=4, note=notes.append, changed=changed.set,
        )  # fmt: skip
        process = by_its_owner()
        try:
            await engines.start()
            (engine,) = engines.all
            first = await engine.client.generate(PROMPT, sampling=Sampling(), max_tokens=8)
            await engines.push(InFolder(new), 1)
            end(process)
            engines.lost(engine, "it does not answer")
            process = by_its_owner()
            while not engine.serves:
                changed.clear()
                await changed.wait()
            back = await engine.client.generate(PROMPT, sampling=Sampling(), max_tokens=8)
            engines.lost(engine, "again")
            await engines.close()
            return {"first": first, "back": back, "out": engine.out, "alive": process.poll() is None}
        finally:
            end(process)
            log.close()

    return now(conduct()) | {"notes": notes, "new": new}


def test_it_is_given_the_starting_weights_as_version_0(seen: dict[str, Any]) -> None:
    assert set(seen["first"].versions) == {0}


def test_it_comes_back_with_the_newest_weights_before_any_request(seen: dict[str, Any]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    answer = seen["back"]
    assert set(answer.versions) == {1}
    model = AutoModelForCausalLM.from_pretrained(seen["new"], dtype=torch.float32)
    with torch.no_grad():
        logits = model(torch.tensor([[*PROMPT, *answer.token_ids]])).logits[0, len(PROMPT) - 1 : -1]
    said = logits.log_softmax(-1).gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0]
    assert torch.tensor(answer.log_probs) == pytest.approx(said, abs=1e-5)


def test_it_is_taken_out_and_never_ended(seen: dict[str, Any]) -> None:
    assert [note.split(":")[0] for note in seen["notes"]] == [
        "engine 0 is asked again",
        "engine 0 is taken out after 1 restarts",
    ]
    assert seen["out"] == "again"
    assert seen["alive"]
