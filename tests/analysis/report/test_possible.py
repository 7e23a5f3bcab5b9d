from __future__ import annotations

import math
from typing import Any

import pytest

from analysis.measures.collapse import Criteria
from analysis.measures.names import EVENTS, TIMES, outcome_names
from analysis.measures.outcomes import outcomes
from analysis.report.possible import must_be_possible
from simulator.studies.every import STUDIES
from simulator.studies.hypothesis import Hypothesis, Kind
from tests.analysis.factories import learning_run


def claim(metric: str, kind: Kind = "paired_difference") -> Hypothesis:
    return Hypothesis(
        id="X", claim="a beats b", source="ours", metric=metric, kind=kind, direction="lower",
        better_arm="a", worse_arm="b",
    )  # fmt: skip


@pytest.mark.parametrize("criteria", [Criteria(), Criteria(metric="reward", shift_updates=(4,))])
def test_names_are_those_that_a_run_has(criteria: Criteria) -> None:
    scores: dict[str, Any] = dict.fromkeys(("reward", "accuracy_short", "accuracy_long"), 0.5)
    run = learning_run([0.1] * 9, **scores)
    known = outcomes(run, criteria)
    assert set(outcome_names(criteria)) == set(known) - {"arm", "seed", "clock", "fate"}


def test_events_are_the_outcomes_that_are_true_or_false_and_times_are_unknown_where_none_came() -> None:
    found = outcomes(learning_run([0.1] * 9), Criteria())
    assert {name for name, value in found.items() if isinstance(value, bool)} == set(EVENTS)
    assert all(math.isnan(found[name]) for name in TIMES)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, s in STUDIES.items() for size in s.SIZES])
def test_every_study_of_ours_can_be_judged(name: str, size: str) -> None:
    plan = STUDIES[name].plan(STUDIES[name].SIZES[size])
    must_be_possible(plan.criteria, plan.hypotheses, plan.pictures)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (({"taget": 0.5}, [], []), "criteria: no field 'taget'; did you mean target"),
        (({"target": "high"}, [], []), "criteria.target: .*, got 'high'"),
        (({"target": float("nan")}, [], []), "criteria.target: nan is not finite"),
        (({"metric": 3}, [], []), "criteria.metric: .*, got 3"),
        (({"collapse_window_updates": 1.5}, [], []), "criteria.collapse_window_updates: .*, got 1.5"),
        (({"learned_gain": {"a": 1}}, [], []), "criteria.learned_gain"),
        (({"shift_updates": 3}, [], []), "criteria.shift_updates"),
        (({"collapse_share": 0}, [], []), "collapse_share is 0"),
        (({"metric": "acuracy"}, [], []), "criteria.metric: no score 'acuracy'; did you mean accuracy"),
        (({}, [claim("meanlag")], []), "claim X: no outcome 'meanlag'; did you mean mean_lag"),
        (
            ({}, [claim("mean_lag", "event_share")], []),
            "metric 'mean_lag' is none that kind 'event_share' takes",
        ),
        (({}, [claim("alarm_update", "time_to_target")], []), "takes: hours_to_target$"),
        (({}, [], [{"kind": "pie"}]), "no picture is of the kind 'pie'"),
        (({}, [], [{"kind": "heat_map", "z": 1}]), "has no option 'z'"),
        (({}, [], [{"kind": "survival", "where": 3}]), "picture 'survival': where is 3"),
    ],
)
def test_what_a_report_would_stumble_over_is_named_before(asked: tuple[Any, Any, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        must_be_possible(*asked)
