"""Which verifiers environment is played, by which interpreter, and what does it say of itself?

*Choice*: its processes are given the variables in `ALWAYS` and those that the user names, no others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final, final

_WORKER: Final = str(Path(__file__).with_name("verifiers_worker.py"))
ALWAYS: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")


class VerifiersError(RuntimeError):
    """The environment, its rubric or its process failed."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiersEnvironment:
    """Which environment, and where.

    Args:
        name: that `verifiers.load_environment` is given.
        args: the environment's own.
        python: an interpreter with verifiers and the environment; empty: this one.
        variables: names of environment variables that it may see.
        load_s: seconds that loading it may take.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    python: str = ""
    variables: tuple[str, ...] = ()
    load_s: float = 300.0

    def command(self, **more: bool) -> list[str]:
        told = {"id": self.name, "args": dict(self.args), **more}
        # -P: our modules beside the worker's do not hide others of their names.
        return [self.python or sys.executable, "-P", _WORKER, json.dumps(told)]

    def environ(self) -> dict[str, str]:
        seen = {name: os.environ[name] for name in (*ALWAYS, *self.variables) if name in os.environ}
        return {"VF_LOG_LEVEL": "WARNING", "HF_HUB_DISABLE_PROGRESS_BARS": "1"} | seen


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What the environment said of itself."""

    kind: str
    version: str
    trained: int
    held_out: int | None


def describe(environment: VerifiersEnvironment) -> Described:
    """Load the environment once, before a run begins.

    Raises:
        VerifiersError: it cannot be loaded, or played.
    """
    try:
        done = subprocess.run(
            environment.command(only_describe=True), env=environment.environ(), timeout=environment.load_s,
            stdin=subprocess.DEVNULL, stdout=PIPE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise VerifiersError(f"{environment.name} was not loaded in {environment.load_s:g} s") from None
    except OSError as error:
        raise VerifiersError(f"python {environment.python}: {error}") from None
    if not done.stdout:
        raise VerifiersError(f"{environment.name}: its process ended with status {done.returncode}")
    try:
        said = ready(json.loads(done.stdout.splitlines()[0]), environment)
    except (ValueError, TypeError, KeyError):
        raise VerifiersError(
            f"python {environment.python}: it does not do what an interpreter does"
        ) from None
    if not said["trained"]:
        raise VerifiersError(f"{environment.name} has no dataset to train on")
    return Described(
        kind=said["class"], version=said["version"], trained=said["trained"], held_out=said["held_out"]
    )


def ready(said: Mapping[str, Any], environment: VerifiersEnvironment) -> Any:
    """What a process says once it has loaded.

    Raises:
        VerifiersError: it could not.
    """
    if "refused" in said:
        raise VerifiersError(f"{environment.name}: {said['refused']}")
    return said["ready"]
