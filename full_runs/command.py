"""`policylag full`: what was asked for, and a run of it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from full_runs import pinned
from full_runs.configs.cores import numbers
from full_runs.configs.ready import READY
from full_runs.configs.record import FullConfig
from full_runs.folder import FINISHED, claimed, named, new_or_unfinished
from full_runs.screen import screen
from simulator.command_line import BadInputError, Options, bad_input, read_experiment
from simulator.stalled import StalledError

if TYPE_CHECKING:
    from full_runs.live import Live


@dataclass(frozen=True)
class FullOptions(Options):
    """Where things come from and where they go, and whether anything is started."""

    dry_run: bool = False
    """Start nothing: say what a run takes (memory, times) and gives (lag, idleness), or what cannot fit."""
    track: Literal["tensorboard", "wandb"] | None = None
    """Show each update as it is done: a copy in `track` of the run's folder, of which nothing is sent."""
    times_from: Path | None = None
    """With dry_run, on processors: a folder that `policylag calibrate --out` wrote, for times and lag."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked question."""

    name: str
    config: FullConfig
    options: FullOptions
    out: Path

    @property
    def run_folder(self) -> Path:
        """Where the event log goes; journal, engines' logs and weights lie beside it."""
        return self.out / FINISHED

    @property
    def arm(self) -> str:
        return self.config.estimator.replace("_", "-")


def ask(words: list[str]) -> Asked:
    """Read the command line; without a folder, the next free one, or that of the same run unfinished.

    Raises:
        BadInputError: an unknown setting, an impossible value, or a folder that cannot be used.
    """
    about = "Real vLLM engines and an FSDP2 trainer: the same estimators, rules and event log."
    name, config, options = read_experiment(words, READY, FullOptions(), command="full", about=about)
    if options.lengths_csv is not None:
        raise BadInputError("full: lengths_csv has no meaning here, lengths are what the model makes of them")
    if options.times_from is not None and (config.gpus or not options.dry_run):
        why = f"gpus is {config.gpus}, whose times are on paper" if config.gpus else "dry_run is not given"
        raise BadInputError(f"full: times_from ({options.times_from}) has no meaning: {why}")
    if options.dry_run:
        if options.out is not None:
            raise BadInputError(f"full: dry_run writes nothing: out ({options.out}) has no meaning")
        return Asked(name=name, config=config, options=options, out=Path())
    out = named(name, config) if options.out is None else new_or_unfinished(options.out, config)
    return Asked(name=name, config=config, options=options, out=out)


def planned(asked: Asked) -> str:
    """What a run would take and give, as text or JSON; nothing is started.

    Raises:
        BadInputError: it cannot fit, or a file cannot be used.
    """
    config, options = asked.config, asked.options
    if config.gpus:
        from full_runs.plan import dry_run, words

        paper = dry_run.plan(config, silent=options.silent)
        return (words.to_json if options.json else words.text)(asked.name, paper)
    from full_runs.plan import processors, processors_words

    plan = processors.plan(config, options.times_from, silent=options.silent)
    return (processors_words.to_json if options.json else processors_words.text)(asked.name, plan)


def conduct(asked: Asked) -> Asked:
    """Make the starting model, start everything, run or go on, and write the event log of what was asked.

    Raises:
        BadInputError: what it needs is not here, or another process took the folder.
        StalledError: it could not go on.
    """
    from full_runs.plan.missing import missing

    if lacking := missing(asked.config):
        raise BadInputError(f"full: {asked.name} cannot run: {'; '.join(lacking)}. --dry-run plans it")
    from full_runs.engine.installed import installed

    try:
        if not asked.config.engine_urls:
            installed()
        from full_runs.run import run_config
    except (ImportError, RuntimeError) as absent:
        raise BadInputError(f"full: {absent}") from None

    if asked.config.controller_cores is not None:
        pinned.stay(numbers(asked.config.controller_cores))
    with bad_input("full: track: "):
        live = _live(asked)

    try:
        with (
            claimed(asked.out, asked.config),
            screen(asked.config.updates, silent=asked.options.silent) as on,
        ):

            def told(version: int, metrics: Mapping[str, float]) -> None:
                on.told(version, metrics)
                if live is not None and (why := live.told(version, metrics)):
                    on.say(why)

            run = run_config(asked.config, out=asked.out, arm=asked.arm, say=on.say, told=told)
            failures = asyncio.run(_ends_when_asked(run))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except (RuntimeError, ValueError) as ended:  # of engines, trainer and weights: all say who and why
        kept = f"what happened before is in {asked.out}; the same command with --out {asked.out} goes on"
        raise StalledError(f"{ended}\n{kept}") from ended
    finally:
        if live is not None:
            live.close()
    if asked.options.json:
        print(
            json.dumps({"run": str(asked.run_folder), "updates": asked.config.updates, "failures": failures})
        )
    elif not asked.options.silent:
        counted = ", ".join(f"{name} {count}" for name, count in failures.items())
        print(f"failures: {counted or 'none'}", file=sys.stderr)
    return asked


async def _ends_when_asked(run: Awaitable[Mapping[str, int]]) -> Mapping[str, int]:
    """A job's scheduler asks with SIGTERM; it ends a run as Ctrl-C does, and its log is written.

    Not by way of SIGINT, which a job in the background ignores.
    """
    own = asyncio.current_task()
    assert own is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own.cancel)
    return await run


def _live(asked: Asked) -> Live | None:
    """Who is shown it.

    Raises:
        ValueError: a package is missing.
    """
    if asked.options.track is None:
        return None
    from analysis.export.extras import must_be_there
    from full_runs.controller.course import JOURNAL
    from full_runs.live import SHOW, Live

    must_be_there(asked.options.track, asked.options.track)
    return Live(
        SHOW[asked.options.track],
        asked.out / "track",
        asked.out / JOURNAL,
        name=asked.out.name,
        config=asked.config.model_dump(mode="json"),
    )
