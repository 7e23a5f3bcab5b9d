from collections.abc import Callable
from typing import Any

import pytest

from simulator.experiments import learning
from simulator.lab.config import LearnConfig
from simulator.studies.every import STUDIES
from simulator.studies.hypothesis import Hypothesis
from simulator.studies.plan import Plan, cells, registration

CLAIM: dict[str, Any] = {"id": "H1", "claim": "it is", "source": "ours", "metric": "collapsed"}
CLAIM |= {"kind": "event_share", "better_arm": "b", "worse_arm": "a"}


def arm(**changes: Any) -> Callable[[int], LearnConfig]:
    return lambda seed: learning("grpo", seed=seed, **changes)


def a_plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {"name": "two", "title": "Two arms", "question": "Which?", "criteria": {}}
    fields |= {"arms": {"b": arm(), "a": arm(push_s=0.25)}, "seeds": 2, "first_seed": 5}
    return Plan(**fields | changes)


def test_a_grid_goes_seed_by_seed_in_the_order_of_the_arms() -> None:
    assert [(cell.arm, cell.seed) for cell in cells(a_plan())] == [("b", 5), ("a", 5), ("b", 6), ("a", 6)]


def test_what_is_registered_is_everything_but_the_configurations() -> None:
    plan = a_plan(
        factors={"b": {"push_s": 0.5}, "a": {"push_s": 0.25}},
        hypotheses=[Hypothesis(**CLAIM)],
        pictures=[{"kind": "heatmap", "x": "push_s"}],
        criteria={"target": 0.7},
    )
    written = registration(plan)
    assert written["arms"] == ["b", "a"]
    assert written["factors"] == {"b": {"push_s": 0.5}, "a": {"push_s": 0.25}}
    assert written["pictures"] == [{"kind": "heatmap", "x": "push_s"}]
    assert written["runs"] == [f"cells/{cell.name}" for cell in cells(plan)]
    assert [Hypothesis(**claim) for claim in written["hypotheses"]] == [Hypothesis(**CLAIM)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arms": {}}, "0 arms"),
        ({"seeds": 0}, "0 seeds"),
        ({"arms": {"../a": arm()}}, "'../a' is no name"),
        ({"arms": {"a" * 201: arm()}}, "longer than 200 letters"),
        ({"factors": {"c": {"lag": 1}}}, r"factors names \['c'\]"),
        ({"hypotheses": [Hypothesis(**CLAIM | {"better_arm": "c"})]}, r"H1 names \['c'\]"),
        ({"hypotheses": [Hypothesis(**CLAIM), Hypothesis(**CLAIM)]}, "twice"),
        ({"pictures": [{"x": "lag"}]}, "picture without a kind"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        a_plan(**changes)


def test_an_arm_that_ignores_its_seed_would_run_the_same_thing_twice() -> None:
    with pytest.raises(ValueError, match="ran seed 0 where 5"):
        cells(a_plan(arms={"a": lambda seed: learning("grpo")}))  # noqa: ARG005


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_both_sizes_and_a_plan_of_its_name(name: str) -> None:
    sizes = STUDIES[name].SIZES
    assert {"small", "full"} <= set(sizes)
    assert len({type(config) for config in sizes.values()}) == 1
    for config in sizes.values():
        plan = STUDIES[name].plan(config)
        assert plan.name == name
        assert plan.question.endswith("?")
        assert plan.seeds == config.seeds  # type: ignore[attr-defined]
    small, full = (len(cells(STUDIES[name].plan(sizes[size].model_copy()))) for size in ("small", "full"))
    assert small <= full
