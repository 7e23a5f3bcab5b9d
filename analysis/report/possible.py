"""Could a study be judged as it is registered? Asked before its first run, not after its last."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.measures.collapse import Criteria
from analysis.measures.names import outcome_names
from analysis.pictures.registered import check_picture
from simulator.studies.hypothesis import Hypothesis
from simulator.words import unknown


def must_be_possible(
    criteria: Mapping[str, Any], hypotheses: Sequence[Hypothesis], pictures: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse what a report would stumble over.

    Raises:
        ValueError: a criterion, an outcome, a kind of picture or an option of it that there is not.
    """
    fields = [field.name for field in dataclasses.fields(Criteria)]
    for name in criteria:
        if name not in fields:
            raise ValueError(f"criteria: {unknown('field', name, fields)}")
    try:
        judged_by = Criteria(**criteria)
    except TypeError as other_type:
        raise ValueError(f"criteria: {other_type}") from None
    known = outcome_names(judged_by)
    for claim in hypotheses:
        if claim.kind != "fitted" and claim.metric not in known:
            raise ValueError(f"claim {claim.id}: {unknown('outcome', claim.metric, known)}")
    for options in pictures:
        check_picture(options)
