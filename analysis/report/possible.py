"""Could a study be judged as it is registered? Asked before its first run, not after its last."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from analysis.measures.collapse import Criteria
from analysis.measures.names import EVENTS, TIMES, outcome_names
from analysis.measures.outcomes import AVERAGED, SCORES
from analysis.pictures.registered import check_picture
from simulator.studies.hypothesis import Hypothesis
from simulator.words import unknown

_CRITERIA: Final = TypeAdapter(Criteria)
_OF_KIND: Final[Mapping[str, Sequence[str]]] = {"event_share": EVENTS, "time_to_target": TIMES}
"""Kinds of claim that are about some outcomes only."""


def must_be_possible(
    criteria: Mapping[str, Any], hypotheses: Sequence[Hypothesis], pictures: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse what a report would stumble over.

    Raises:
        ValueError: a criterion, an outcome, a kind of picture or an option of it that there is not, or an
            outcome that the claim's kind cannot judge.
    """
    judged_by = _criteria(criteria)
    if judged_by.metric not in (scores := (*SCORES, *AVERAGED)):
        raise ValueError(f"criteria.metric: {unknown('score', judged_by.metric, scores)}")
    known = outcome_names(judged_by)
    for claim in hypotheses:
        if claim.kind != "fitted" and claim.metric not in known:
            raise ValueError(f"claim {claim.id}: {unknown('outcome', claim.metric, known)}")
        fitting = _OF_KIND.get(claim.kind, known)
        if claim.kind != "fitted" and claim.metric not in fitting:
            raise ValueError(
                f"claim {claim.id}: metric {claim.metric!r} is none that kind {claim.kind!r} takes: "
                f"{', '.join(fitting)}"
            )
    for options in pictures:
        check_picture(options)


def _criteria(given: Mapping[str, Any]) -> Criteria:
    fields = [field.name for field in dataclasses.fields(Criteria)]
    for name, value in given.items():
        if name not in fields:
            raise ValueError(f"criteria: {unknown('field', name, fields)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"criteria.{name}: {value} is not finite")
    try:
        # As they are kept: nothing is converted, but JSON's lists are tuples.
        return _CRITERIA.validate_json(json.dumps(dict(given), default=str), strict=True)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        if first["type"] == "value_error":  # the record names field and value itself
            raise ValueError(first["msg"].removeprefix("Value error, ")) from None
        path = ".".join(map(str, ("criteria", *first["loc"])))
        raise ValueError(f"{path}: {first['msg']}, got {first['input']!r}") from None
