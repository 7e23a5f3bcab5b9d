"""Which learning run? An estimator, a world, and a schedule: of a pipeline, or a recorded one.

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, final

from simulator.command_line import BadInputError, Options, read_experiment, with_lengths
from simulator.eventlog import EventLog
from simulator.experiments import LEARNERS
from simulator.folders import must_be_free, must_be_makeable
from simulator.lab.config import LearnConfig
from simulator.lab.names import CRITICS, SINGLE
from simulator.lab.recorded import config_of, log_of, must_keep_its_schedule
from simulator.lab.worlds import (
    BandBitsWorld,
    BigramWorld,
    CarryAdditionWorld,
    ModularAdditionWorld,
    StyleDriftWorld,
    ToolLookupWorld,
    World,
)
from simulator.words import last_value, split, unknown

_Name = Literal["modular-addition", "carry-addition", "tool-lookup", "style-drift", "band-bits", "bigram"]
WORLDS: Final[Mapping[str, World]] = {
    "modular-addition": ModularAdditionWorld(),
    "carry-addition": CarryAdditionWorld(),
    "tool-lookup": ToolLookupWorld(),
    "style-drift": StyleDriftWorld(),
    "band-bits": BandBitsWorld(),
    "bigram": BigramWorld(),
}
_LANGUAGE: Final = {"learning_rate": 1e-4}
_SUITED: Final[Mapping[str, Mapping[str, float]]] = {
    "carry-addition": _LANGUAGE,
    "tool-lookup": _LANGUAGE,
    "style-drift": _LANGUAGE,
}
"""What a world needs besides itself: small language models break at the rate of a network of one layer."""


@dataclass(frozen=True)
class LearnOptions(Options):
    """Where things come from, where they go, and what survives a kill."""

    world: _Name | None = None
    """What is learned, with a learning rate that suits it; --world.FIELD changes it further."""
    replay: Path | None = None
    """Learn from the schedule of this recorded run: same rollouts, same versions, same order."""
    checkpoint: Path | None = None
    """Keep the learner in this folder; after a kill the same command goes on from there."""
    checkpoint_every: int = 100
    """Updates between two checkpoints, at least."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A learning run, checked as far as it can be before it begins."""

    name: str
    config: LearnConfig
    options: LearnOptions
    recorded: EventLog | None = None
    """The log whose schedule is replayed."""


def ask(words: list[str]) -> Asked:
    """`[ESTIMATOR] [--world WORLD] [--replay RUN] [--checkpoint FOLDER] [--config FILE] [--field value ...]`.

    Raises:
        BadInputError: a name, field or value that cannot be, a run that cannot be replayed by this estimator,
            or a folder that cannot be written to.
    """
    words = split(words, "--replay", "--world")
    world, source = last_value(words, "--world"), last_value(words, "--replay")
    if world is not None and world.replace("_", "-") not in WORLDS:
        raise BadInputError(f"learn: {unknown('world', world, list(WORLDS))}")
    experiments = dict(LEARNERS)
    recorded = None
    if source is not None:
        name = _named(words)
        recorded = log_of(Path(source))
        experiments[name] = partial(config_of, Path(source), name, words)
    if world is not None:
        experiments = {key: partial(in_world, make, world) for key, make in experiments.items()}
    name, config, options = read_experiment(
        [word.replace("_", "-") if word == world else word for word in words],
        experiments,
        LearnOptions(),
        command="learn",
        about="A small model samples under the versions that a schedule dictates, and learns.",
        what="estimator",
        listing=_listing(),
    )
    if options.world is not None and config.world.kind != options.world.replace("-", "_"):
        raise BadInputError(
            f"learn: --world is {options.world}, but another word or file says {config.world.kind}"
        )
    if options.replay is not None:
        must_keep_its_schedule(config, experiments[name]())
        if options.lengths_csv is not None:
            raise BadInputError("learn: --lengths-csv has no effect with --replay: lengths were recorded")
    else:
        config = config.model_copy(update={"pipeline": with_lengths(config.pipeline, options)})
    _check_folders(options)
    return Asked(name=name, config=config, options=options, recorded=recorded)


def _named(words: Sequence[str]) -> str:
    """The estimator of a replay: it has to be said, for a default would compare something by accident."""
    name = words[0].replace("_", "-") if words and not words[0].startswith("-") else None
    if name is None:
        raise BadInputError("learn: --replay needs an estimator by name: policylag learn grpo --replay RUN")
    if name not in LEARNERS:
        raise BadInputError(f"learn: {unknown('estimator', name, list(LEARNERS), help_of='policylag learn')}")
    if "--config" in split(words, "--config"):
        raise BadInputError("learn: --config cannot be had with --replay, which brings a configuration")
    return name


def in_world(make: Callable[[], LearnConfig], world: str) -> LearnConfig:
    """The same run in a world by name, with a learning rate that suits it."""
    config, name = make(), world.replace("_", "-")
    if config.world.kind == WORLDS[name].kind:
        return config
    return config.model_copy(update={"world": WORLDS[name], **_SUITED.get(name, {})})


def _check_folders(options: LearnOptions) -> None:
    must_be_free(options.out)
    if options.checkpoint is None:
        return
    if options.replay is not None:
        raise BadInputError("learn: --checkpoint cannot be had with --replay: a replay is not resumed")
    if options.checkpoint_every < 1:
        raise BadInputError(f"learn: checkpoint_every must be at least 1, got {options.checkpoint_every}")
    if options.out is not None and options.out.resolve() == options.checkpoint.resolve():
        raise BadInputError(
            f"learn: --out and --checkpoint are both {options.out}: each needs its own folder"
        )
    must_be_makeable(options.checkpoint, name="learn: checkpoint")


def _listing() -> str:
    """All names for `--help`, by what they learn from."""
    critics, single = (
        [n for n in LEARNERS if n.replace("-", "_") in kind] for kind in (CRITICS, SINGLE - CRITICS)
    )
    groups = [name for name in LEARNERS if name not in {*critics, *single}]
    return "\n\n".join(
        [
            f"Estimators that learn from groups of rollouts: {', '.join(groups)}.",
            f"From single rollouts, with a critic: {', '.join(critics)}.",
            f"From single rollouts, without one: {', '.join(single)}.",
            f"Worlds (--world): {', '.join(WORLDS)}.",
        ]
    )
