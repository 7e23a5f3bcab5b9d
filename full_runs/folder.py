"""Whose is a run's folder: nobody's, a finished run's, or that of one which was killed and can go on?"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from full_runs.configs.record import FullConfig
from simulator.command_line import BadInputError, bad_input
from simulator.folders import must_be_free

FINISHED: Final = "run"
UNFINISHED: Final = "unfinished"
_CONFIG: Final = "config.json"
_LOCK: Final = "lock"
MAY_DIFFER: Final = frozenset(
    {
        "ranks",
        "trainer_nodes",
        "rendezvous",
        "gpus",
        "gpus_per_node",
        "accelerator",
        "tensor_parallel",
        "engine_memory",
        "engines",
        "engine_urls",
        "engine_api_key_variable",
        "engine_threads",
        "engine_cores",
        "trainer_cores",
        "controller_cores",
        "engine_cache_gb",
        "tokens_at_once",
        "packed",
        "push_over",
        "wire_timeout_s",
        "checkpointed",
        "mean_response_tokens",
        "sd_response_tokens",
        "engine_attempts",
        "engine_restarts",
        "engine_ready_timeout_s",
        "trainer_restarts",
        "environment_timeout_s",
        "stall_limit_s",
        "updates_per_checkpoint",
    }
)
"""Settings of machines, of memory, of patience and of the plan: a run may go on with others."""


def new_or_unfinished(out: Path, config: FullConfig) -> Path:
    """The folder again.

    Raises:
        BadInputError: it is a finished run's, another configuration's, in use, or no run's at all.
    """
    if not out.exists():
        return out
    if not (out / _CONFIG).is_file() or (out / FINISHED).exists():
        must_be_free(out)
        return out
    with bad_input(f"out: {out / _CONFIG}: "):
        kept = FullConfig.model_validate_json((out / _CONFIG).read_text())
    for name in sorted(FullConfig.model_fields.keys() - MAY_DIFFER):
        there, here = getattr(kept, name), getattr(config, name)
        if there != here:
            raise BadInputError(f"out: {out} holds an unfinished run whose {name} is {there}, not {here}")
    if _is_locked(out / _LOCK):
        raise BadInputError(f"out: another process runs in {out}")
    return out


def named(name: str, config: FullConfig, *, runs: Path = Path("runs")) -> Path:
    """A folder for a run that was given none: the first that is free, or that such a run left unfinished."""
    for number in range(1, 10_000):
        with contextlib.suppress(BadInputError):
            return new_or_unfinished(runs / f"full-{name}-{number:03d}", config)
    raise BadInputError(f"out: {runs} is full of runs of {name}")


@contextlib.contextmanager
def claimed(out: Path, config: FullConfig) -> Iterator[None]:
    """The folder is this process's, until it ends however it ends.

    Raises:
        BadInputError: another process was faster, or nothing can be written there.
    """
    with bad_input("out: "):
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / _LOCK).open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInputError(f"out: another process runs in {out}") from None
        part = out / f".{_CONFIG}.part"
        part.write_text(config.model_dump_json(indent=2))
        os.replace(part, out / _CONFIG)
        yield


def _is_locked(file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), file.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
