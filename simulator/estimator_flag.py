"""How is an estimator named in a flag? With dashes or underscores; one that is not there has neighbours.

Without this a help page would show all names wherever one is asked for.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from simulator.lab.names import EstimatorName
from simulator.words import unknown

ESTIMATORS: Final = get_args(EstimatorName)


def estimator_name(word: str) -> str:
    """The estimator that a word names.

    Raises:
        ValueError: there is none of this name.
    """
    name = word.replace("-", "_")
    if name not in ESTIMATORS:
        dashed = [each.replace("_", "-") for each in ESTIMATORS]
        raise ValueError(unknown("estimator", word.replace("_", "-"), dashed, help_of="policylag learn"))
    return name


def _several(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    if info.type != tuple[EstimatorName, ...]:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="[ESTIMATOR [ESTIMATOR ...]]",
        instance_from_str=_names,
        is_instance=lambda value: isinstance(value, tuple) and set(value) <= set(ESTIMATORS),
        str_from_instance=list,
    )


def _names(words: list[str]) -> tuple[str, ...]:
    if not words:
        raise ValueError("needs at least one estimator")
    return tuple(map(estimator_name, words))


def _rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    if info.type != EstimatorName:  # type: ignore[comparison-overlap]
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="ESTIMATOR",
        instance_from_str=lambda words: estimator_name(words[0]),
        is_instance=lambda value: value in ESTIMATORS,
        str_from_instance=lambda value: [value],
    )


FLAGS: Final = ConstructorRegistry()
"""What tyro is to know besides its own."""
FLAGS.primitive_rule(_rule)
FLAGS.primitive_rule(_several)
