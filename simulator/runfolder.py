"""What made a run? Its folder says so, beside the event log.

A run folder holds the event log (Parquet), `config.json` (resolved, can be passed in again) and
`meta.json` (arm, seed, clock, digest, versions). `EventLog.write` makes it appear whole or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from simulator.config import PipelineConfig
from simulator.eventlog import EventLog
from simulator.lab.config import LearnConfig
from simulator.world.lengths import Trace

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("jaxtyping", "joblib", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "simpy", "torch")
_SOURCES = ("algorithms", "simulator")


def write_run(
    folder: Path,
    log: EventLog,
    config: PipelineConfig | LearnConfig,
    *,
    arm: str,
    took_s: float | None = None,
    replayed: EventLog | None = None,
) -> None:
    """Keep a finished run; see the module's docstring.

    Args:
        took_s: seconds of wall clock that it took, from which a study's dry run learns.
        replayed: the log whose schedule this run had; its digest is kept.

    Raises:
        FileExistsError: `folder` holds something already.
    """
    seed = config.seed if isinstance(config, PipelineConfig) else config.pipeline.seed
    meta = {"arm": arm, "seed": seed, "clock": clock_of(config), "digest": log.digest(), **provenance()}
    if took_s is not None:
        meta["took_s"] = took_s
    if replayed is not None:
        meta["replayed"] = replayed.digest()
    log.write(folder, config=config.model_dump(mode="json"), meta=meta)


def clock_of(config: PipelineConfig | LearnConfig) -> str:
    """What a second of the log is: simulated, or (with an imposed lag) one update."""
    imposed = isinstance(config, LearnConfig) and config.imposed_lag_updates is not None
    return "imposed" if imposed else "simulated"


def provenance() -> dict[str, Any]:
    """Versions of everything that could change a number, for `meta.json`."""
    versions = {name: importlib.metadata.version(name) for name in ("policylag", *_PACKAGES)}
    return {
        "versions": versions | {"python": platform.python_version()},
        "git_revision": _git_revision(),
        "source_digest": source_digest(),
    }


def content_digest(config: PipelineConfig | LearnConfig) -> str:
    """Hash of all that decides a run's numbers: its configuration, its trace of lengths and the code."""
    pipeline = config if isinstance(config, PipelineConfig) else config.pipeline
    content = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    digest = hashlib.sha256(f"{source_digest()}{content}".encode())
    if isinstance(pipeline.lengths, Trace):
        digest.update(Path(pipeline.lengths.path).read_bytes())
    return digest.hexdigest()


@cache
def source_digest() -> str:
    """Hash of the code that makes runs: results of another code are never taken for results of this."""
    digest = hashlib.sha256()
    for package in _SOURCES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            digest.update(str(path.relative_to(_ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _git_revision() -> str | None:
    """The commit of this checkout, marked if files differ from it; None outside a checkout."""
    if not (_ROOT / ".git").exists():
        return None
    try:
        revision = _git("rev-parse", "HEAD")
        return f"{revision} with changes" if _git("status", "--porcelain") else revision
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_ROOT, check=True, capture_output=True, text=True, timeout=20
    )
    return done.stdout.strip()
