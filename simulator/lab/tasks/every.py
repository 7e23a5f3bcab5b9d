"""The world that a configuration names, built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from simulator.lab.models.decoding import Crossing, keep_cache, recompute_cache
from simulator.lab.models.gpt import Sizes
from simulator.lab.models.warm_start import WarmStart, default_cache
from simulator.lab.parts import Task
from simulator.lab.tasks.band_bits import BandBits
from simulator.lab.tasks.bigram import Bigram
from simulator.lab.tasks.carry_addition import CarryAddition
from simulator.lab.tasks.game import Game
from simulator.lab.tasks.modular_addition import ModularAddition
from simulator.lab.tasks.played import LeftOut, Played
from simulator.lab.tasks.style_drift import StyleDrift
from simulator.lab.tasks.tool_lookup import ToolLookup
from simulator.lab.worlds import (
    BandBitsWorld,
    BigramWorld,
    CarryAdditionWorld,
    ModularAdditionWorld,
    StyleDriftWorld,
    ToolLookupWorld,
    World,
)

_CROSSINGS: Final[Mapping[str, Crossing]] = {"keep_cache": keep_cache, "recompute_cache": recompute_cache}


def task_of(world: World, seed: int, *, cache: Path | None = None) -> Task:
    """The world of one run.

    Args:
        seed: of the run: of prompts, of what samplers draw, and of starting weights.
        cache: folder of warm starts; None for the user's own.
    """
    if isinstance(world, ModularAdditionWorld):
        return ModularAddition(
            modulus=world.modulus, questions=world.questions, hidden=world.hidden, seed=seed
        )
    if isinstance(world, BandBitsWorld):
        return BandBits(bits=world.bits, low=world.low, high=world.high, seed=seed)
    if isinstance(world, BigramWorld):
        return Bigram(vocabulary=world.vocabulary, length=world.length, seed=seed)
    game = game_of(world, seed)
    return Played(
        game,
        seed=seed,
        sizes=Sizes(width=world.width, depth=world.depth, heads=world.heads),
        warm_start=WarmStart(accuracy=world.warm_start_accuracy, most_steps=world.warm_start_steps),
        evaluate_every=world.evaluate_every,
        crossing=_CROSSINGS[world.after_push],
        left_out=_left_out(world, game),
        cache=cache or default_cache(),
    )


def _left_out(world: World, game: Game) -> LeftOut | None:
    if isinstance(world, ToolLookupWorld) and world.crashed_rollouts == "leave_out":
        assert isinstance(game, ToolLookup)  # made of that world
        return game.crashed
    return None


def game_of(world: CarryAdditionWorld | ToolLookupWorld | StyleDriftWorld, seed: int) -> Game:
    """The rules that a small language model plays by."""
    if isinstance(world, CarryAdditionWorld):
        return CarryAddition(seed=seed, most_digits=world.most_digits)
    if isinstance(world, StyleDriftWorld):
        return StyleDrift(seed=seed, shifts=world.shifts)
    return ToolLookup(
        seed=seed,
        most_turns=world.most_turns,
        tail=world.tail,
        crash_probability=world.crash_probability,
        observation_tokens=world.observation_tokens,
    )
