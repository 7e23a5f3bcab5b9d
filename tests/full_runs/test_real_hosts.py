"""A run whose engine somebody else started, with a key, and whose trainer has a second node; all on loopback.

No second host was available, so what is shown is that nothing but addresses and a shared folder is used.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from full_runs.configs.ready import tiny_cpu
from tests.full_runs.real import command, environment, needs_engines, now

pytestmark = needs_engines()
KEY = "a-key-that-is-nowhere-else"
SETTINGS = {
    "updates": 4, "rollouts_per_update": 16, "in_flight": 16, "measure_every": 2, "held_out": 8,
    "warm_start_accuracy": 0.01, "critic_only_updates": 0,
    "precision": "bfloat16", "tokens_at_once": 128, "packed": True, "checkpointed": True,
    "max_gradient_norm": 1.0, "learning_rate": 1e-3,
}  # fmt: skip


def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def flags(**settings: object) -> list[str]:
    words = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    return words


def full(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("full", "tiny-cpu", *words), env=environment(**variables),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one that serves the tiny model and asks for a key."""
    from full_runs.controller.course import server_options
    from full_runs.engine import launch
    from full_runs.engine.client import EngineClient
    from full_runs.run import starting_model, world_of

    config = tiny_cpu(**SETTINGS)
    world = world_of(config)
    options = server_options(config, world.most_tokens, 0)
    here = port()
    words = [*launch.command(starting_model(config, world), here, options), "--api-key", KEY]
    url = f"http://127.0.0.1:{here}"

    async def is_there() -> bool:
        async with EngineClient(url) as client:
            return await client.is_healthy()

    with (tmp_path_factory.mktemp("engine") / "log.txt").open("wb") as log:
        variables = environment(**launch.environment(options, os.environ))
        with subprocess.Popen(words, env=variables, stdout=log, stderr=log) as process:
            try:
                while not now(is_there()):
                    assert process.poll() is None
                yield url
                # Nobody but its owner ends it.
                assert process.poll() is None
                assert now(is_there())
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def out(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run over both nodes that came to its end."""
    place = tmp_path_factory.mktemp("hosts")
    join = ["-m", "full_runs.trainer.join", "--folder", str(place / "run" / "trainer"), "--node", "1"]
    with (place / "joined.txt").open("wb") as log:
        joined = subprocess.Popen([sys.executable, *join], env=environment(), stdout=log, stderr=log)
    try:
        done = full(
            *flags(**SETTINGS, ranks=2, trainer_nodes=2, rendezvous=f"127.0.0.1:{port()}"),
            *("--engine-urls", engine, "--engine-api-key-variable", "THE_KEY"),
            *("--out", str(place / "run")),
            THE_KEY=KEY,
        )
        assert done.returncode == 0, done.stderr
        assert KEY not in done.stdout + done.stderr
        assert joined.wait(120) == 0
    finally:
        joined.kill()
        joined.wait()
    return place / "run"


def test_all_updates_were_made_and_reached_the_engine(out: Path) -> None:
    updates = pd.read_parquet(out / "run" / "updates.parquet")
    assert list(updates["version"]) == [1, 2, 3, 4]
    assert (updates["refused"] == 0).all()
    assert updates["published_s"].notna().all()
    rollouts = pd.read_parquet(out / "run" / "rollouts.parquet")
    trained = rollouts[rollouts["status"] == "trained"]
    assert trained["last_version"].max() >= 1
    assert '"compared": 0' not in (out / "journal.jsonl").read_text()


def test_the_key_is_written_nowhere(out: Path) -> None:
    for file in out.rglob("*"):
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("words", "variables", "status", "said"),
    [
        ((), {}, 2, "engine_api_key_variable is THE_KEY, and no such variable is set"),
        ((), {"THE_KEY": "another"}, 1, "/v1/models answered 401"),
        (("--width", "32"), {"THE_KEY": KEY}, 1, "holds another model: model."),
        (("--precision", "float32"), {"THE_KEY": KEY}, 1, "dtype is bfloat16, not float32"),
        (("--keys-at-push", "keep"), {"THE_KEY": KEY}, 1, "shares keys of equal prefixes"),
    ],
)
def test_an_engine_that_will_not_do_is_refused_with_the_reason(
    engine: str, tmp_path: Path, words: tuple[str, ...], variables: dict[str, str], status: int, said: str
) -> None:
    url = ("--engine-urls", engine, "--engine-api-key-variable", "THE_KEY", "--out", str(tmp_path / "x"))
    done = full(*flags(**SETTINGS), "--ranks", "1", *url, *words, **variables)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_one_that_never_answers_is_waited_for_and_named(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{port()}"
    done = full(
        *flags(**SETTINGS), "--ranks", "1", "--engine-urls", nobody, "--engine-ready-timeout-s", "2",
        "--out", str(tmp_path / "x"),
    )  # fmt: skip
    assert done.returncode == 1
    assert f"the engine at {nobody} did not answer in 2 s" in done.stderr
