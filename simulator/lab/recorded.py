"""Can this run folder's schedule be replayed, and under which configuration?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from simulator.command_line import BadInputError, bad_input, one_line
from simulator.eventlog import EventLog
from simulator.lab.config import LearnConfig
from simulator.words import last_value

FREE: Final = ("critic_updates", "critic_update_s")
"""Fields of the pipeline that a replay may change: they decide what is learned, no longer when."""


def log_of(folder: Path) -> EventLog:
    """The event log of a run folder.

    Raises:
        BadInputError: there is none, or a table is missing or broken.
    """
    with bad_input("learn: replay: "):
        return EventLog.read(folder)


def config_of(folder: Path, name: str, words: Sequence[str]) -> LearnConfig:
    """The recorded configuration with another estimator: of a learning run, or of one that only kept time.

    Args:
        name: of the estimator.
        words: of the command line; those that set `FREE` are heeded before the whole is checked.

    Raises:
        BadInputError: no configuration, or one that this estimator cannot learn under.
    """
    content = _read(folder / "config.json")
    # A run that only kept time wrote its pipeline alone.
    learned = content if "pipeline" in content else {"pipeline": content}
    given = {field: last_value(words, f"--pipeline.{field.replace('_', '-')}") for field in FREE}
    changed = {field: value for field, value in given.items() if value is not None}
    if changed.get("critic_updates") == "0":
        changed.setdefault("critic_update_s", "0")  # the time that a critic took is in the log
    pipeline = {**learned["pipeline"], **changed}
    try:
        return LearnConfig.model_validate(
            {**learned, "pipeline": pipeline, "estimator": name.replace("-", "_")}
        )
    except ValidationError as wrong:
        said = one_line(wrong)
        hint = "; --pipeline.critic-updates N changes it" if "pipeline.critic_updates is" in said else ""
        raise BadInputError(f"learn: replay: {folder}: {said}{hint}") from None


def must_keep_its_schedule(config: LearnConfig, recorded: LearnConfig) -> None:
    """Refuse words that would change what has happened already.

    Raises:
        BadInputError: naming the first field, what was recorded and what was asked for.
    """
    pairs = {f"pipeline.{name}": (getattr(config.pipeline, name), was) for name, was in recorded.pipeline}
    for name in ("imposed_lag_updates", "imposed_lag_spread"):
        pairs[name] = getattr(config, name), getattr(recorded, name)
    for field, (asked, was) in pairs.items():
        if asked != was:
            raise BadInputError(
                f"learn: replay: {field} was {was} when it was recorded, and cannot be {asked} any more"
            )


def _read(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        raise BadInputError(f"learn: replay: {file} is missing: it says which pipeline was recorded")
    with bad_input(f"learn: replay: {file}: "):
        content = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("pipeline", {}), dict):
        raise BadInputError(f"learn: replay: {file} holds no configuration")
    return content
