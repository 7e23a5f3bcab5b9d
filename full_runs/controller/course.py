"""One full run from its first engine to its event log: wiring, and what starts and stops when."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import torch

from full_runs.configs.cores import shared_out
from full_runs.configs.record import FullConfig
from full_runs.controller.buffer import Buffer
from full_runs.controller.engines import Engines, Start
from full_runs.controller.journal import Journal, opened, rollout_row
from full_runs.controller.measure import measured
from full_runs.controller.records import Made
from full_runs.controller.rollouts import Rollouts
from full_runs.controller.training import Training
from full_runs.controller.ways import Trainer, backend, way_of
from full_runs.engine.digests import inventory
from full_runs.engine.elsewhere import Elsewhere
from full_runs.engine.launch import ServerOptions
from full_runs.engine.server import Server
from full_runs.push import Pusher
from full_runs.tasks.environment import World
from full_runs.trainer.processes import TrainerError
from simulator.rules.incomplete import Incomplete, drop_group, pad_if_most_are_valid, retry_member

INCOMPLETE: Final[Mapping[str, Incomplete]] = {
    "drop": drop_group,
    "retry": retry_member,
    "pad": pad_if_most_are_valid,
}
JOURNAL: Final = "journal.jsonl"
LEAST_TOKENS: Final = 32
"""An engine has room for so many, however short rollouts are."""
Told = Callable[[int, Mapping[str, float]], None]
"""(updates done, what the last one saw) -> show it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a run is made of besides its settings."""

    world: World
    model: Path
    """Folder of the starting weights."""
    trainer: Trainer
    """Just started."""
    folder: Path
    """For journal, checkpoints, engines' logs and weights. If a journal is there, the run goes on from it."""
    note: Callable[[str], None]
    """Told what goes wrong, in words."""
    told: Told
    engine_api_key: str | None = None
    """Of engines that somebody else started."""


async def run(config: FullConfig, parts: Parts) -> None:
    """Run all updates that are left; what happened is in the journal.

    Raises:
        ServerDiedError, ValueError: engines do not come up, or lack what is needed.
        TrainerError, NoEngineError, StalledError: it could not go on. The journal holds all that happened.
    """
    past, journal = opened(parts.folder / JOURNAL, group_size=config.group_size)
    wakes: list[Callable[[], None]] = []

    def changed() -> None:
        for wake in wakes:
            wake()

    way = way_of(config, parts.trainer, parts.model, parts.folder / "weights")
    engines = Engines(
        starts(config, parts, parts.world.most_tokens),
        weights=way.start,
        pusher=pusher(config, parts.model),
        most_restarts=config.engine_restarts,
        slots=config.in_flight // config.engines,
        note=functools.partial(_said, journal, parts.note),
        changed=changed,
    )
    buffer = Buffer(
        config.rule(),
        INCOMPLETE[config.incomplete_group],
        batch_rollouts=config.rollouts_per_update,
        group_size=config.group_size,
        most_tokens=parts.world.most_tokens,
        on_drop=lambda made, reason: _dropped(journal, training.version, made, reason),
        uniform=random.Random(config.seed + past.version).random,
    )
    buffer.recall(past)
    training = Training(
        config, parts.trainer, engines, buffer, journal,
        prepare=way.prepare, checkpoints=parts.folder / "checkpoints",
        measure=functools.partial(measured, config, parts.world, engines, journal.clock),
    )  # fmt: skip
    rollouts = Rollouts(
        config, parts.world, engines, buffer, journal,
        trainer_version=lambda: training.version, changed=changed, past=past,
    )  # fmt: skip
    training.crashed = lambda: rollouts.crashed or engines.crashed
    if past.rollouts:
        parts.note(f"going on after update {past.version}")
    try:
        if past.version:
            await engines.start(await training.resume(past.version), past.version)
        else:
            await engines.start()
        journal.begin(past.clock_s)
        wakes.extend([training.changed.set, rollouts.fill])
        changed()
        while training.version < config.updates:
            metrics = await training.update()
            changed()
            parts.told(training.version, metrics)
    except TrainerError as error:
        journal.write("failure", what="trainer", why=str(error)[:300])
        raise
    finally:
        wakes.clear()
        await rollouts.close()
        await engines.close()
        journal.close()


def starts(config: FullConfig, parts: Parts, most_tokens: int) -> list[Start]:
    """How each engine comes: started here, or found where it runs."""
    model = parts.model
    options = [server_options(config, most_tokens, place) for place in range(config.engines)]
    if config.engine_urls:
        key = parts.engine_api_key
        return [
            functools.partial(Elsewhere, url, api_key=key, model=model, options=own)
            for url, own in zip(config.engine_urls, options, strict=True)
        ]
    return [
        functools.partial(Server, model, log=parts.folder / "engines" / f"engine-{place}.log", options=own)
        for place, own in enumerate(options)
    ]


def server_options(config: FullConfig, most_tokens: int, place: int) -> ServerOptions:
    """How an engine is started for these settings.

    Args:
        place: which of the engines.
    """
    on_gpus = config.placement().engines[place] if config.gpus else ()
    on_cores = shared_out(config.engine_cores, config.engines)
    return ServerOptions(
        max_model_tokens=max(most_tokens, LEAST_TOKENS),
        max_requests=config.in_flight // config.engines,
        dtype=config.precision,
        # Prefixes are shared only if a push throws them away.
        prefix_caching=config.keys_at_push == "recompute",
        tensor_parallel=config.tensor_parallel,
        weight_transfer=backend(config),
        gpus=tuple(number for _, number in on_gpus),
        gpu_memory=config.engine_memory,
        threads=config.engine_threads,
        cores=on_cores[place] if on_cores else (),
        cpu_cache_gb=config.engine_cache_gb,
        ready_timeout_s=config.engine_ready_timeout_s,
        seed=config.seed,
    )


def pusher(config: FullConfig, model: Path) -> Pusher:
    """How weights reach engines of these settings."""
    dtype: torch.dtype = getattr(torch, config.precision)
    return Pusher(wanted=inventory(model), keys=config.keys_at_push, dtype=dtype)


def _said(journal: Journal, note: Callable[[str], None], words: str) -> None:
    journal.write("note", at_s=journal.clock(), words=words)
    note(words)


def _dropped(journal: Journal, version: int, made: Made, reason: str) -> None:
    more: dict[str, Any] = {"consumed_s": journal.clock(), "consumed_version": version}
    row = rollout_row(made.asked, made, status="dropped", reason=reason, **more)
    journal.write("rollout", **{name: value for name, value in row.items() if value is not None})
