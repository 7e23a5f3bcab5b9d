"""Which runs do the arms of a user's file stand for? Fields in, configurations out; nothing is run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from simulator.command_line import one_line
from simulator.config import PipelineConfig
from simulator.config_file import merged
from simulator.estimator_flag import estimator_name
from simulator.experiments import LEARNERS, PIPELINES
from simulator.lab.ask import WORLDS, in_world
from simulator.lab.config import LearnConfig
from simulator.studies.cells import RunConfig
from simulator.words import unknown

Fields: TypeAlias = Mapping[str, Any]
Varied: TypeAlias = Sequence[tuple[str, Sequence[Any]]]
"""Dotted names of fields, each with the values that it takes."""
ESTIMATOR: Final = "estimator"
EXPERIMENT: Final = "experiment"
SEED: Final = "seed"
MOST_ARMS: Final = 10_000
"""Of one study; far more than anyone reads, and few enough to be listed at once."""


def varied(vary: Fields, above: str = "") -> Iterator[tuple[str, Sequence[Any]]]:
    """Dotted names with their values: TOML makes tables of dotted keys.

    Raises:
        ValueError: a field without values.
    """
    for key, values in vary.items():
        if isinstance(values, Mapping):
            yield from varied(values, f"{above}{key}.")
        elif isinstance(values, list) and values:
            yield f"{above}{key}", values
        else:
            raise ValueError(f"vary: {above}{key} is {values!r}, and not a list of values")


def arms_of(arms: Mapping[str, Fields], vary: Varied) -> dict[str, dict[str, Any]]:
    """Every arm with every combination of what varies, named after both.

    Args:
        arms: by name, fields of each; none at all is one without a name.

    Raises:
        ValueError: more combinations than a study may have, or two of one name.
    """
    combinations = math.prod(len(values) for _, values in vary) * max(1, len(arms))
    if combinations > MOST_ARMS:
        raise ValueError(f"vary: {combinations:,} arms are more than {MOST_ARMS:,}")
    found: dict[str, dict[str, Any]] = {}
    for name, own in (arms or {"": {}}).items():
        for values in product(*(values for _, values in vary)):
            fields = dict(own)
            parts = [name] if name else []
            for (key, _), value in zip(vary, values, strict=True):
                fields = merged(fields, nested(key, value))
                parts.append(said(key, value))
            whole = "+".join(parts)
            if whole in found:
                raise ValueError(f"vary: two arms would be called {whole!r}")
            found[whole] = fields
    return found


def factors_of(found: Mapping[str, Fields], vary: Varied) -> dict[str, dict[str, float | str]]:
    """Of each arm that `arms_of` found, what varied and to which value; nothing, if nothing does."""
    names = {key: key.rpartition(".")[2] for key, _ in vary}
    if len(set(names.values())) < len(names):
        names = {key: key for key in names}
    return {
        arm: {names[key]: _setting(_at(fields, key)) for key in names}
        for arm, fields in found.items()
        if names
    }


def nested(key: str, value: Any) -> dict[str, Any]:
    """`{"a": {"b": value}}` for `a.b`."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def said(key: str, value: Any) -> str:
    """A value as part of an arm's name; words speak for themselves."""
    setting = _setting(value)
    if isinstance(setting, str) and not isinstance(value, bool):
        return setting.replace("_", "-")
    return f"{key.rpartition('.')[2]}={setting if isinstance(setting, str) else format(setting, 'g')}"


def configuration(arm: str, fields: Fields, seed: int) -> RunConfig:
    """A run of an arm.

    Args:
        fields: `estimator` and fields of `policylag learn`, or `experiment` and fields of
            `policylag simulate`; a world, a rule and other kinds by name or as tables.

    Raises:
        ValueError: the arm names neither, or a field or value cannot be; the arm is named.
    """
    try:
        return _configuration(fields, seed)
    except ValidationError as wrong:
        raise ValueError(f"arm {arm!r}: {one_line(wrong)}") from None
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"arm {arm!r}: {wrong}") from None


def _configuration(fields: Fields, seed: int) -> RunConfig:
    if (ESTIMATOR in fields) is (EXPERIMENT in fields):
        raise ValueError(
            "needs either an estimator, with fields of `policylag learn`, or an experiment, with those of"
            " `policylag simulate`"
        )
    if EXPERIMENT in fields:
        name = str(fields[EXPERIMENT]).replace("_", "-")
        if name not in PIPELINES:
            raise ValueError(unknown("experiment", name, list(PIPELINES), help_of="policylag simulate"))
        rest = {key: value for key, value in fields.items() if key != EXPERIMENT}
        _no_seed(rest)
        whole = merged(PIPELINES[name]().model_dump(), rest)
        return PipelineConfig.model_validate(whole | {"seed": seed})
    estimator = estimator_name(str(fields[ESTIMATOR]))
    make, rest = LEARNERS[estimator.replace("_", "-")], {**fields, ESTIMATOR: estimator}
    world = rest.get("world")
    called = world.get("kind") if isinstance(world, Mapping) else world
    if called is not None:
        name = str(called).replace("_", "-")
        if name not in WORLDS:
            raise ValueError(unknown("world", name, list(WORLDS), help_of="policylag learn"))
        make = partial(in_world, make, name)
        rest["world"] = world if isinstance(world, Mapping) else {}
    _no_seed(rest.get("pipeline"))
    whole = merged(make().model_dump(), rest)
    return LearnConfig.model_validate(merged(whole, {"pipeline": {"seed": seed}}))


def _no_seed(pipeline: Any) -> None:
    if isinstance(pipeline, Mapping) and SEED in pipeline:
        raise ValueError(
            f"{SEED}: {pipeline[SEED]!r} is not for an arm to say: the study's seeds and first_seed do"
        )


def _setting(value: Any) -> float | str:
    if isinstance(value, Mapping):
        if not isinstance(value.get("kind"), str):
            raise ValueError(f"vary: {dict(value)} has no kind, by which an arm could be named")
        return str(value["kind"])
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _at(fields: Fields, key: str) -> Any:
    value: Any = fields
    for part in key.split("."):
        value = value[part]
    return value
