"""How long does a push take over the wire, beside one through a folder?

    .venv-full/bin/python -m benchmarks.bench_full_push [--repeats 5] [--sizes tiny larger]

One trainer rank, one engine, no requests in flight, float32, one machine; both ways with all their checks, in
turns, and the folder's time includes the trainer's writing. `stood still` is what the engine waits.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.turns import times_as_long

SIZES: Final = {
    "tiny": {"width": 64, "depth": 2, "heads": 4},
    # About 30 million parameters.
    "larger": {"width": 512, "depth": 8, "heads": 8},
}
VOCABULARY: Final = 4096


def model(folder: Path, sizes: dict[str, int]) -> int:
    """A random Qwen3; its number of parameters."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    made = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=sizes["width"],
            intermediate_size=3 * sizes["width"],
            num_hidden_layers=sizes["depth"],
            num_attention_heads=sizes["heads"],
            num_key_value_heads=sizes["heads"],
            head_dim=sizes["width"] // sizes["heads"],
            max_position_embeddings=256,
            tie_word_embeddings=True,
        )
    )
    made.save_pretrained(folder)
    return sum(weight.numel() for weight in made.parameters())


async def measured(place: Path, start: Path, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Of each way, (seconds of the push, seconds that the engine stood still), in turns."""
    from full_runs.engine.client import EngineClient
    from full_runs.engine.digests import inventory
    from full_runs.engine.launch import GLOO, ServerOptions
    from full_runs.engine.server import Server
    from full_runs.push import Pusher, Weights
    from full_runs.push_folder import InFolder
    from full_runs.push_wire import OverWire
    from full_runs.trainer.client import LOOPBACK, TrainerClient
    from full_runs.trainer.config import TrainerConfig

    options = ServerOptions(max_model_tokens=128, max_requests=4, weight_transfer=GLOO)
    server = Server(start, log=place / "engine.txt", options=options)
    trainer = TrainerClient(place / "trainer")
    pusher = Pusher(wanted=inventory(start))
    wire = OverWire(trainer, LOOPBACK, workers=1, timeout_s=60.0)

    async def folder() -> Weights:
        await asyncio.to_thread(trainer.save_weights, place / "saved")
        return InFolder(place / "saved")

    async def over_wire() -> Weights:
        return wire

    ways: dict[str, Callable[[], Awaitable[Weights]]] = {"folder": folder, "wire": over_wire}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    try:
        trainer.start(TrainerConfig(model=str(start), estimator="grpo_dis"), 1)
        async with EngineClient(server.url) as client:
            await server.ready(client)
            for turn in range(-1, repeats):
                for name, prepare in ways.items():
                    began_s = time.perf_counter()
                    pushed = await pusher.push([client], await prepare(), 1)
                    assert not pushed.failed, pushed
                    if turn >= 0:  # the first is a rehearsal
                        found[name].append((time.perf_counter() - began_s, pushed.stood_still_s))
    finally:
        await server.stop()
        trainer.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=tuple(SIZES), default=list(SIZES))
    told: Any = parser.parse_args()
    for size in told.sizes:
        with tempfile.TemporaryDirectory() as made:
            place = Path(made)
            parameters = model(place / "start", SIZES[size])
            found = asyncio.run(measured(place, place / "start", told.repeats))
        print(f"{size}, {parameters / 1e6:.1f} M parameters:")
        for column, what in enumerate(("push", "stood still")):
            wire, folder = ([each[column] for each in found[name]] for name in ("wire", "folder"))
            best = f"best {min(wire):.3f} s over the wire, {min(folder):.3f} s through a folder"
            print(f"  {what}: {times_as_long(wire, folder)}; {best}")


if __name__ == "__main__":
    main()
