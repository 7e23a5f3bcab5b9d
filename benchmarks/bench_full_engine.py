"""How many tokens a second does our client get out of a vLLM server, beside vLLM's own `bench serve`?

    make bench, or: .venv-full/bin/python -m benchmarks.bench_full_engine [--repeats 7]

One server with a tiny model, the same prompts, as many requests in flight. Ours are `EngineClient.generate`:
token ids in; token ids, log-probs and versions out, checked. Theirs is `vllm.benchmarks.serve`, called in
this process (the `vllm` command does not start from the CPU package): text streamed over `/v1/completions`,
without log-probs and with them. The bare client posts our requests and reads the JSON: on connections kept
alive, as ours are, which leaves the reading of answers; and on new ones, which shows what one costs. The aim
is 1.10 times as long as `bench serve` at the most.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import importlib.util
import io
import json
import random
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.turns import times_as_long

VOCABULARY: Final = 64
PROMPT_TOKENS: Final = 8
OURS: Final = "ours"

Turn = Callable[[], Awaitable[float]]
"""Seconds for all requests."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked for."""

    requests: int
    in_flight: int
    tokens: int
    """Of each answer."""


LOADS: Final = {
    "short": Load(requests=384, in_flight=64, tokens=4),
    "long": Load(requests=128, in_flight=64, tokens=128),
}


async def all_of(
    one: Callable[[list[int]], Awaitable[object]], load: Load, prompts: list[list[int]]
) -> float:
    """Seconds until every prompt is answered, so many at a time."""
    free = asyncio.Semaphore(load.in_flight)

    async def ask(prompt: list[int]) -> None:
        async with free:
            await one(prompt)

    start_s = time.perf_counter()
    await asyncio.gather(*map(ask, prompts))
    return time.perf_counter() - start_s


def our_turn(client: Any, load: Load, prompts: list[list[int]]) -> Turn:
    from full_runs.engine.sampling import Sampling

    sampling = Sampling()

    async def one(prompt: list[int]) -> None:
        answer = await client.generate(prompt, sampling=sampling, max_tokens=load.tokens)
        assert len(answer.token_ids) == load.tokens

    return lambda: all_of(one, load, prompts)


def bare_turn(url: str, load: Load, prompts: list[list[int]], *, kept_alive: bool) -> Turn:
    import aiohttp

    from full_runs.engine.capability import GENERATE
    from full_runs.engine.sampling import Sampling

    params = Sampling().request(max_tokens=load.tokens, stop_token_ids=(), seed=None)

    async def turn() -> float:
        connector = aiohttp.TCPConnector(limit=0, force_close=not kept_alive)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def one(prompt: list[int]) -> None:
                body = {"token_ids": prompt, "sampling_params": params}
                async with session.post(url + GENERATE, json=body) as reply:
                    assert len((await reply.json())["choices"][0]["token_ids"]) == load.tokens

            return await all_of(one, load, prompts)

    return turn


def their_turn(url: str, model: Path, load: Load, prompts: list[list[int]], *, log_probs: bool) -> Turn:
    from vllm.benchmarks import serve

    # The tiny model's tokenizer has a word for each id.
    asked = model / f"prompts-{load.tokens}.jsonl"
    words = [" ".join(f"<{token}>" for token in prompt) for prompt in prompts]
    asked.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in words))
    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    line = [
        "--base-url",
        url,
        "--model",
        str(model),
        "--dataset-name",
        "custom",
        "--dataset-path",
        str(asked),
    ]
    line += ["--skip-chat-template", "--disable-shuffle", "--num-prompts", str(len(prompts))]
    line += ["--custom-output-len", str(load.tokens), "--max-concurrency", str(load.in_flight)]
    line += ["--ignore-eos", "--temperature", "1", "--disable-tqdm", "--ready-check-timeout-sec", "0"]
    args = parser.parse_args([*line, *(["--logprobs", "0"] if log_probs else [])])

    async def turn() -> float:
        with contextlib.redirect_stdout(io.StringIO()):
            found = await serve.main_async(copy.copy(args))  # which writes into it
        assert found["completed"] == len(prompts), found
        assert found["total_output_tokens"] == len(prompts) * load.tokens, found
        return float(found["duration"])

    return turn


async def measure(name: str, load: Load, url: str, client: Any, model: Path, repeats: int) -> None:
    draw = random.Random(0)
    prompts = [[draw.randrange(VOCABULARY) for _ in range(PROMPT_TOKENS)] for _ in range(load.requests)]
    turns = {
        OURS: our_turn(client, load, prompts),
        "bench serve": their_turn(url, model, load, prompts, log_probs=False),
        "bench serve, log-probs": their_turn(url, model, load, prompts, log_probs=True),
        "bare, kept alive": bare_turn(url, load, prompts, kept_alive=True),
        "bare, new connections": bare_turn(url, load, prompts, kept_alive=False),
    }
    took: dict[str, list[float]] = {side: [] for side in turns}
    for repeat in range(repeats + 1):
        for side, turn in turns.items():
            spent_s = await turn()
            if repeat:  # the first is for whatever is made once
                took[side].append(spent_s)
    tokens = load.requests * load.tokens
    for side, spent in took.items():
        beside = "" if side == OURS else f"; ours takes {times_as_long(took[OURS], spent)}"
        print(
            f"{name:>5}, {load.tokens:3} tokens: {side:>22} {tokens / min(spent):7,.0f} tokens/s{beside}",
            flush=True,
        )


async def all_loads(model: Path, repeats: int, only: str | None) -> None:
    from full_runs.engine.client import EngineClient
    from full_runs.engine.launch import ServerOptions
    from full_runs.engine.server import Server

    options = ServerOptions(max_model_tokens=256, max_requests=64)
    server = Server(model, log=model / "engine.log", options=options)
    try:
        async with EngineClient(server.url) as client:
            await server.ready(client)
            await client.set_version(0)
            for name, load in LOADS.items():
                if only in (None, name):
                    await measure(name, load, server.url, client, model, repeats)
    finally:
        await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--load", choices=list(LOADS), help="one alone")
    args = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:
        print("full engine: not measured, vLLM is not installed here (make setup-full)")
        return
    warnings.simplefilter("ignore")  # what vLLM's dependencies deprecate is theirs to mend
    from full_runs.tasks.tiny_model import TinyModel, made, save

    with tempfile.TemporaryDirectory() as folder:
        save(made(TinyModel(), vocabulary=VOCABULARY, positions=256), Path(folder), vocabulary=VOCABULARY)
        asyncio.run(all_loads(Path(folder), args.repeats, args.load))


if __name__ == "__main__":
    main()
