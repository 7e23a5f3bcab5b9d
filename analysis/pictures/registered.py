"""Which figures did a study register? Each `kind` of its `pictures` is one function here.

A function takes the study, a random generator, a name that is unique in the page and the options of its
kind, and gives pictures. `where` restricts any of them to runs whose factors have the values given, such as
{"estimator": "grpo"} or {"lag": [16, 64]}.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from analysis.pictures.collapse import collapse_times, cosine, phase_diagram, survival
from analysis.pictures.drift import drift_by_lag, ratio_tail
from analysis.pictures.factors import heat_map, score_by_factor
from analysis.pictures.picture import Picture
from analysis.pictures.pipeline import frontier, lag_against_load, lag_parts, length_bias
from analysis.pictures.signals import critic, early_warnings, masks
from analysis.pictures.time import curves_by_arm, recovery
from analysis.study import Study
from analysis.tables.factors import NothingToShowError

KINDS: Final[Mapping[str, Callable[..., list[Picture]]]] = {
    "score_by_factor": score_by_factor,
    "phase_diagram": phase_diagram,
    "collapse_times": collapse_times,
    "survival": survival,
    "heat_map": heat_map,
    "curves_by_arm": curves_by_arm,
    "drift_by_lag": drift_by_lag,
    "cosine": cosine,
    "recovery": recovery,
    "masks": masks,
    "ratio_tail": ratio_tail,
    "critic": critic,
    "early_warnings": early_warnings,
    "lag_parts": lag_parts,
    "lag_against_load": lag_against_load,
    "frontier": frontier,
    "length_bias": length_bias,
}


def registered_pictures(
    study: Study, asked: Sequence[Mapping[str, Any]], rng: np.random.Generator
) -> list[Picture]:
    """The figures of a study, in the order in which they were registered.

    Those that these runs have nothing for are left out.

    Raises:
        ValueError: a kind or an option that there is not.
    """
    shown: list[Picture] = []
    for i, options in enumerate(asked):
        chosen = {name: value for name, value in options.items() if name != "kind"}
        kind = str(options.get("kind"))
        # Part of a study, or a short one, may have nothing for a figure that was registered for all of it.
        with contextlib.suppress(NothingToShowError):
            shown += picture(kind, chosen, study, rng, name=f"asked-{i}-{kind}")
    return shown


def picture(
    kind: str, options: Mapping[str, Any], study: Study, rng: np.random.Generator, *, name: str
) -> list[Picture]:
    """The figures of one kind."""
    check_picture({"kind": kind, **options})
    try:
        return KINDS[kind](study, rng, name, **options)
    except NothingToShowError:
        raise
    except ValueError as refused:
        raise ValueError(f"picture {kind!r}: {refused}") from refused


def check_picture(asked: Mapping[str, Any]) -> None:
    """Refuse a kind or an option that there is not, or a restriction that is none.

    Raises:
        ValueError: it is named, with those that there are.
    """
    kind = str(asked.get("kind"))
    if kind not in KINDS:
        raise ValueError(f"no picture is of the kind {kind!r}; there are {', '.join(KINDS)}")
    known = [
        option
        for option in inspect.signature(KINDS[kind]).parameters
        if option not in ("study", "rng", "name")
    ]
    unknown = [option for option in asked if option not in ("kind", *known)]
    if unknown:
        raise ValueError(f"picture {kind!r} has no option {unknown[0]!r}; it has {', '.join(known)}")
    where = asked.get("where", {})
    if not isinstance(where, Mapping):
        raise ValueError(f"picture {kind!r}: where is {where!r}, and not a value by factor")
