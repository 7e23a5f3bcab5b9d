"""How does a configuration become a run? Starting model, trainer, controller, event log."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from full_runs.configs.cores import shared_out
from full_runs.configs.record import Addition, FullConfig, Lookup
from full_runs.configs.text_worlds import Verifiers
from full_runs.controller.course import JOURNAL, Parts, Told, run
from full_runs.controller.journal import event_log, failures, lines
from full_runs.engine.installed import installed
from full_runs.folder import FINISHED, UNFINISHED
from full_runs.tasks.games import GameWorld, game_world
from full_runs.tasks.taught import taught
from full_runs.tasks.text import TextWorld
from full_runs.tasks.text_worlds import text_world
from full_runs.tasks.tiny_model import TinyModel
from full_runs.tasks.tokenizer import ModelTokenizer
from full_runs.tasks.verifiers_world import VerifiersWorld, verifiers_world
from full_runs.trainer.client import TrainerClient
from full_runs.trainer.config import CriticConfig, TrainerConfig
from full_runs.trainer.launch import dismiss
from full_runs.trainer.processes import TrainerError
from simulator.command_line import BadInputError
from simulator.lab.models.warm_start import WarmStart, default_cache
from simulator.runfolder import provenance


async def run_config(
    config: FullConfig, *, out: Path, arm: str, say: Callable[[str], None], told: Told
) -> Mapping[str, int]:
    """Run it, or what is left of it, and write the event log to `out/run`; how often what failed.

    However it ends, the event log of what happened so far is there, in `out/unfinished`.

    Args:
        out: folder for everything that the run leaves.
        arm: name of the run in reports.
        say: told what happens, in words.
        told: told of each update.
    """
    key = os.environ.get(config.engine_api_key_variable or "") or None
    world = world_of(config)
    say("teaching the starting model (kept for the next run)")
    model = await asyncio.to_thread(starting_model, config, world)
    restarts, whole = 0, False
    try:
        while not whole:
            say("starting engines and trainer (a minute or so)")
            trainer = TrainerClient(out / "trainer")
            try:
                start_trainer(trainer, config, model, say)
                parts = Parts(
                    world=world, model=model, trainer=trainer, folder=out, note=say, told=told,
                    engine_api_key=key,
                )  # fmt: skip
                await run(config, parts)
                whole = True
            except TrainerError as error:
                if restarts == config.trainer_restarts:
                    raise
                restarts += 1
                say(f"the trainer is started again: {error}")
            finally:
                await asyncio.to_thread(trainer.stop)
    finally:
        if config.trainer_nodes > 1:
            dismiss(out / "trainer", uuid.uuid4().hex)
        if not isinstance(world, GameWorld):
            await world.close()
        # An interrupted run is a run too: what it recorded can be read and reported.
        keep(out, config, arm=arm, whole=whole)
    return failures(lines(out / JOURNAL))


def keep(out: Path, config: FullConfig, *, arm: str, whole: bool) -> None:
    """Write the event log that the journal amounts to: to `out/run`, or `out/unfinished`."""
    journal = out / JOURNAL
    if not journal.exists():
        return
    log = event_log(lines(journal))
    meta = {"arm": arm, "seed": config.seed, "clock": "wall", "digest": log.digest()}
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    log.write(
        out / (FINISHED if whole else UNFINISHED),
        config=config.model_dump(mode="json"),
        meta=meta | provenance() | ({} if config.engine_urls else _engine_version()),
    )


def world_of(config: FullConfig) -> GameWorld | TextWorld | VerifiersWorld:
    """What is played.

    Raises:
        BadInputError: a file, the tokenizer, the sandbox, an extra or an environment cannot be used.
    """
    if isinstance(config.world, Addition | Lookup):
        return game_world(config.world, seed=config.seed)
    assert config.model is not None  # the configuration is checked
    try:
        if isinstance(config.world, Verifiers):
            return verifiers_world(
                config.world,
                ModelTokenizer(config.model, chat_template=True).chat(),
                seed=config.seed,
                max_prompt_tokens=config.max_prompt_tokens,
                max_response_tokens=config.max_response_tokens,
            )
        return text_world(
            config.world,
            ModelTokenizer(config.model, chat_template=config.world.chat_template),
            seed=config.seed,
            max_prompt_tokens=config.max_prompt_tokens,
            max_response_tokens=config.max_response_tokens,
        )
    except (ImportError, RuntimeError, ValueError) as error:
        raise BadInputError(f"full: world {config.world.kind}: {error}") from None


def starting_model(config: FullConfig, world: GameWorld | TextWorld | VerifiersWorld) -> Path:
    """A folder: the user's, the hub model's, or the tiny model's, taught or from the cache."""
    if not isinstance(world, GameWorld):
        assert config.model is not None
        return Path(config.model) if Path(config.model).is_dir() else _downloaded(config.model)
    sizes = TinyModel(width=config.width, depth=config.depth, heads=config.heads, seed=config.seed)
    recipe = WarmStart(accuracy=config.warm_start_accuracy)
    return taught(world.game, sizes, recipe, cache=default_cache())


def _downloaded(model: str) -> Path:
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(model, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"])
    )


def trainer_config(config: FullConfig, model: Path) -> TrainerConfig:
    """What the trainer is told."""
    return TrainerConfig(
        model=str(model),
        estimator=config.estimator,
        learning_rate=config.learning_rate,
        critic=CriticConfig(
            learning_rate_ratio=config.critic_learning_rate_ratio,
            critic_only_updates=config.critic_only_updates,
        ),
        max_gradient_norm=config.max_gradient_norm,
        tokens_at_once=config.tokens_at_once,
        packed=config.packed,
        device="cuda" if config.gpus else "cpu",
        precision=config.precision,
        checkpointed=config.checkpointed,
    )


def start_trainer(
    trainer: TrainerClient, config: FullConfig, model: Path, say: Callable[[str], None]
) -> None:
    """Start this host's ranks, and say how the others come."""
    nodes = config.trainer_nodes
    trainer.start(
        trainer_config(config, model),
        config.ranks,
        nodes=nodes,
        rendezvous=config.rendezvous if nodes > 1 else None,
        gpus=config.placement().of_trainer(0) if config.gpus else (),
        cores=shared_out(config.trainer_cores, config.ranks),
    )
    if nodes > 1:
        join = f"python -m full_runs.trainer.join --folder {trainer.folder.absolute()} --node"
        say(f"the trainer waits for its other nodes, 1 to {nodes - 1}: `{join} 1` and so on")


def _engine_version() -> dict[str, Any]:
    name = installed()
    return {"engine": f"{name} {importlib.metadata.version(name)}"}
