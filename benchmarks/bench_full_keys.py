"""How far from the new weights are tokens that follow a push, if keys and values of the old ones are kept?

    .venv-full/bin/python -m benchmarks.bench_full_keys [--pushes 10] [--learning-rate 2e-4] [--updates 1]

A real engine and a trainer of a small random Qwen3, float32. Requests are in flight, the trainer makes its
updates (GRPO, rewards drawn at random), a push takes the new weights to the engine, the requests go on. Of
each token after the push the log-prob that the engine recorded is compared with that of the new weights over
the same text, by the trainer. Pushes keep keys and compute them again in turns. Intervals are Student's t
over pushes; `k3` is exp(d) - 1 - d of the difference d, what a trainer sees as staleness.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from analysis.statistics.intervals import t_interval

VOCABULARY: Final = 50
TOKENS: Final = 240
HEAD_START: Final = 20
"""Tokens a request before a push."""
PROMPTS: Final = [[number, 2, 3] for number in range(16)]
KEYS: Final = ("keep", "recompute")


class Seen(NamedTuple):
    """Of one push."""

    mean: float
    """Size of the difference, nats a token."""
    most: float
    k3: float
    stood_still_s: float
    tokens: int
    """After the push, of rollouts that crossed it."""


def model(folder: Path) -> None:
    """With weights so large that it has opinions of its own."""
    from full_runs.tasks.tiny_model import TinyModel, made, save

    network = made(TinyModel(), vocabulary=VOCABULARY, positions=256)
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.1, generator=draws)
    save(network, folder, vocabulary=VOCABULARY)


def batch(answers: Sequence[Any], round_: int) -> Any:
    """What engines said, as a trainer reads it; four rows are a group."""
    from algorithms.rollout import Rollout
    from full_runs.trainer.message import batch_of

    rewards = torch.randint(0, 2, (len(answers),), generator=torch.Generator().manual_seed(round_)).tolist()
    return batch_of(
        [
            Rollout(
                prompt_id=row // 4, group_id=row // 4, token_ids=answer.token_ids,
                action_mask=(True,) * len(answer.token_ids), behaviour_log_probs=answer.log_probs,
                policy_versions=answer.versions, reward=float(rewards[row]), truncated=True, temperature=1.0,
            )
            for row, answer in enumerate(answers)
        ]
    )  # fmt: skip


def compared(recorded: Any, under_new: torch.Tensor, version: int, stood_still_s: float) -> Seen:
    """Tokens of the new version, in rollouts that have some of an older one."""
    new = recorded.policy_versions == version
    crossed = ((recorded.policy_versions < version) & recorded.action_mask).any(1, keepdim=True)
    apart = (under_new - recorded.behaviour_log_probs)[new & crossed & recorded.action_mask].double()
    return Seen(
        mean=float(apart.abs().mean()),
        most=float(apart.abs().max()),
        k3=float((apart.exp() - 1 - apart).mean()),
        stood_still_s=stood_still_s,
        tokens=len(apart),
    )


async def tokens_made(client: Any) -> float:
    """By the engine since it started."""
    async with client._session.get(f"{client.url}/metrics") as reply:
        lines = (await reply.text()).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:generation_tokens_total"))


async def measured(place: Path, told: Any) -> dict[str, list[Seen]]:
    """Of each way, what was seen at each push."""
    from full_runs.engine.client import EngineClient
    from full_runs.engine.digests import inventory
    from full_runs.engine.launch import ServerOptions
    from full_runs.engine.sampling import Sampling
    from full_runs.engine.server import Server
    from full_runs.push import Pusher
    from full_runs.push_folder import InFolder
    from full_runs.trainer.client import TrainerClient
    from full_runs.trainer.config import TrainerConfig

    start, saved = place / "start", place / "saved"
    model(start)
    options = ServerOptions(max_model_tokens=256, max_requests=len(PROMPTS))
    server, trainer = (
        Server(start, log=place / "engine.txt", options=options),
        TrainerClient(place / "trainer"),
    )
    found: dict[str, list[Seen]] = {keys: [] for keys in KEYS}
    try:
        trainer.start(TrainerConfig(model=str(start), estimator="grpo", learning_rate=told.learning_rate), 1)
        async with EngineClient(server.url) as client:
            await server.ready(client)
            ask = partial(client.generate, sampling=Sampling(), max_tokens=TOKENS)
            await client.set_version(0)
            known, version = batch(await asyncio.gather(*map(ask, PROMPTS)), 0), 0
            for push in range(2 * told.pushes):
                keys = KEYS[push % 2]
                for _ in range(told.updates):
                    await asyncio.to_thread(trainer.train, known, PROMPTS)
                    version += 1
                await asyncio.to_thread(trainer.save_weights, saved)
                made_before = await tokens_made(client)
                asked = [asyncio.create_task(ask(prompt)) for prompt in PROMPTS]
                while await tokens_made(client) < made_before + HEAD_START * len(PROMPTS):
                    await asyncio.sleep(0.02)
                pusher = Pusher(wanted=inventory(start), keys=keys)  # type: ignore[arg-type]
                pushed = await pusher.push([client], InFolder(saved), version)
                assert not pushed.failed, pushed
                known = batch(await asyncio.gather(*asked), push + 1)
                under_new = await asyncio.to_thread(trainer.log_probs, known, PROMPTS)
                found[keys].append(compared(known, under_new, version, pushed.stood_still_s))
    finally:
        await server.stop()
        trainer.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pushes", type=int, default=10, help="of each way")
    parser.add_argument("--updates", type=int, default=1, help="between two pushes")
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        found = asyncio.run(measured(Path(made), told))
    for keys, seen in found.items():
        tokens = sum(each.tokens for each in seen)
        most = max(each.most for each in seen)
        print(f"{keys}: {len(seen)} pushes, {tokens:,} tokens after one; at most {most:.1e} nats")
        for what in ("mean", "k3", "stood_still_s"):
            interval, _ = t_interval([getattr(each, what) for each in seen])
            print(f"  {what}: {interval.estimate:.2e} [{interval.low:.2e}, {interval.high:.2e}]")


if __name__ == "__main__":
    main()
