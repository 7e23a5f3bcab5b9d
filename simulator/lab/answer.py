"""The learning run that was asked for: under its pipeline, resumed, or on a recorded schedule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from simulator.command_line import BadInputError
from simulator.eventlog import EventLog
from simulator.lab.ask import Asked
from simulator.lab.checkpoint import FILE, Checkpoints
from simulator.lab.config import LearnConfig
from simulator.lab.replay import replay
from simulator.lab.run import learn
from simulator.lab.student import Student
from simulator.ledger import Ledger
from simulator.pipeline.pipeline import Run
from simulator.progress import progress

_INSTEAD: Final = {"vapo": "; vapo-alpha-1.5 takes short answers"}


def answer(asked: Asked) -> Run:
    """Run it, with progress on stderr.

    Raises:
        BadInputError: the estimator refuses an option or what it is given, a warm start does not reach its
            accuracy, a recorded update cannot be replayed, or a checkpoint belongs to another run.
        KeyboardInterrupt: after saying that a checkpoint is kept, if there is one.
    """
    config, options = asked.config, asked.options
    folder = options.checkpoint
    with progress(config.pipeline.updates, "updates", silent=options.silent) as advance:
        try:
            if asked.recorded is not None:
                return _replayed(config, asked.recorded, lambda _: advance())
            kept = (
                None if folder is None else Checkpoints(folder=folder, every_updates=options.checkpoint_every)
            )
            return learn(config, progress=lambda _: advance(), checkpoints=kept)
        except ValueError as refused:
            instead = _INSTEAD.get(config.estimator, "")
            name = config.estimator.replace("_", "-")
            raise BadInputError(f"learn {name}: {' '.join(str(refused).split())}{instead}") from None
        except KeyboardInterrupt:
            _say_what_is_kept(folder)
            raise


def done(asked: Asked) -> None:
    """The log is safe: what was kept for another try may go."""
    if asked.options.checkpoint is not None:
        Checkpoints(folder=asked.options.checkpoint).remove()


def _replayed(config: LearnConfig, recorded: EventLog, after: Callable[[int], None]) -> Run:
    log = replay(Student(config), recorded, progress=after)
    ends = log.updates["train_end_s"].to_pylist()
    return Run(config=config.pipeline, log=log, ledger=Ledger(), end_s=max(ends, default=0.0))


def _say_what_is_kept(folder: Path | None) -> None:
    if folder is not None and (folder / FILE).is_file():
        print(f"policylag: {folder} holds a checkpoint; the same command goes on from there", file=sys.stderr)
