"""What do the words of `policylag bias` ask for?

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import tyro

from algorithms.catalogue import by_name
from algorithms.estimator import Estimator
from simulator.command_line import BadInputError, run_tyro
from simulator.exact.bias import LAGS_UPDATES, WORLDS
from simulator.exact.gradient import listed
from simulator.exact.world import random_world

MOST_LAG: Final = 10_000
MOST_WORLDS: Final = 10_000


@dataclass(frozen=True)
class Asking:
    """Exact bias and variance of each estimator's gradient against the true gradient, by lag."""

    estimators: tyro.conf.Positional[list[str]]
    """Named compositions, such as grpo or sao."""
    lags: list[int] = dataclasses.field(default_factory=lambda: list(LAGS_UPDATES))
    """Updates between the policy that sampled and the policy that learns: 0 1 4 16, or 0,1,4,16."""
    worlds: int = WORLDS
    """Random worlds to average over."""
    seed: int = 0
    """Makes the worlds; equal seeds give equal tables."""
    drift: Literal["random-walk", "ascent"] = "random-walk"
    """How the policy moved between sampling and learning: without direction, or along the true gradient."""
    into_batch: int = 0
    """Updates already made on the batch: pi_old lies so many updates back, and clips against it act."""
    sweep: bool = False
    """Also the double-sided mask and PPO's clip over a grid of eps_low and eps_high."""
    out: Path | None = None
    """Folder for the tables (CSV) and the figures (SVG). It must be new or empty."""
    quiet: bool = False
    """No progress on stderr."""
    json: bool = False
    """One JSON object on stdout, and nothing else there."""

    @property
    def silent(self) -> bool:
        return self.quiet or self.json

    @property
    def compositions(self) -> Mapping[str, Estimator]:
        """The estimators by the name they were asked by."""
        known = by_name()
        return {name: known[name.replace("-", "_")]() for name in self.estimators}


def ask(words: list[str]) -> Asking:
    """`ESTIMATOR... [--lags 0 1 4 16] [--worlds 16] [--seed 0] [--sweep] [--out FOLDER] [--json]`.

    Raises:
        BadInputError: no estimator, an unknown one or one that refuses so short responses; a lag, world
            count or seed out of range; a word that is no field.
    """
    asked: Asking = run_tyro(Asking, [part for word in words for part in _split(word)], command="bias")
    names = list(dict.fromkeys(name.replace("_", "-") for name in asked.estimators))
    known = [name.replace("_", "-") for name in by_name()]
    there_are = f"there are {', '.join(known)}"
    if not names:
        raise BadInputError(f"bias: needs an estimator; {there_are}")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadInputError(f"bias: no estimator {', '.join(map(repr, unknown))}; {there_are}")
    lags = sorted(set(asked.lags))
    if not lags:
        raise BadInputError("bias: lags needs a number of updates")
    for name, low, high, values in (
        ("lags", 0, MOST_LAG, lags),
        ("worlds", 2, MOST_WORLDS, [asked.worlds]),
        ("seed", 0, None, [asked.seed]),
        ("into-batch", 0, MOST_LAG, [asked.into_batch]),
    ):
        for value in values:
            if value < low or (high is not None and value > high):
                limit = f"at least {low}" if high is None else f"{low} to {high}"
                raise BadInputError(f"bias: {name} must be {limit}, got {value}")
    asked = dataclasses.replace(asked, estimators=names, lags=lags)
    # Their advantages are not used (all get the exact ones), but what refuses such rollouts is not asked.
    world = random_world(np.random.default_rng(0))
    for name, estimator in asked.compositions.items():
        try:
            estimator.advantage(listed(world, world))
        except ValueError as refused:
            raise BadInputError(
                f"bias: {name} is not made for responses of {world.length_tokens} tokens: {refused}"
            ) from None
    return asked


def _split(word: str) -> list[str]:
    """`0,1,4` and `--lags=0,1,4` as words of their own."""
    flag, equals, value = word.partition("=")
    if equals and flag == "--lags":
        return [flag, *_split(value)]
    parts = word.split(",")
    return parts if len(parts) > 1 and all(part.lstrip("-").isdigit() for part in parts) else [word]
