from __future__ import annotations

from typing import Any

import pytest

from simulator.config import PipelineConfig
from simulator.experiments import LEARNERS, PIPELINES
from simulator.lab.ask import ask as ask_learn
from simulator.lab.config import LearnConfig
from simulator.studies.own_arms import arms_of, configuration, factors_of, nested, varied


def test_dotted_keys_come_back_from_tables() -> None:
    vary = {"slots": [1, 2], "staleness": {"eta_batches": [3]}}
    assert list(varied(vary)) == [("slots", [1, 2]), ("staleness.eta_batches", [3])]
    assert nested("a.b.c", 1) == {"a": {"b": {"c": 1}}}


def test_every_arm_meets_every_combination_and_is_named_after_both() -> None:
    arms = {"a": {"eps_low": 0.2}, "b": {}}
    vary = [("estimator", ["grpo", "grpo_dis"]), ("pipeline.slots", [64])]
    found = arms_of(arms, vary)
    assert list(found) == ["a+grpo+slots=64", "a+grpo-dis+slots=64", "b+grpo+slots=64", "b+grpo-dis+slots=64"]
    assert found["a+grpo+slots=64"] == {"eps_low": 0.2, "estimator": "grpo", "pipeline": {"slots": 64}}
    assert factors_of(found, vary)["b+grpo-dis+slots=64"] == {"estimator": "grpo_dis", "slots": 64}
    assert list(arms_of({}, [("slots", [1, 2])])) == ["slots=1", "slots=2"]


def test_tables_are_named_by_their_kind_and_switches_by_their_field() -> None:
    vary = [("staleness", [{"kind": "one_step_off"}]), ("drop", [True, 1e-5])]
    assert list(arms_of({}, vary)) == ["one-step-off+drop=True", "one-step-off+drop=1e-05"]
    with pytest.raises(ValueError, match="has no kind"):
        arms_of({}, [("staleness", [{"eta_batches": 3}])])


def test_two_fields_of_one_last_name_stay_two_factors() -> None:
    vary = [("a.n", [1]), ("b.n", [2])]
    found = factors_of(arms_of({}, vary), vary)
    assert list(found.values()) == [{"a.n": 1, "b.n": 2}]


@pytest.mark.parametrize("estimator", ["sao", "grpo-dis", "rloo"])
@pytest.mark.parametrize("world", [None, "carry-addition"])
def test_an_arm_is_what_learn_makes_of_the_same_words(estimator: str, world: str | None) -> None:
    fields: dict[str, Any] = {"estimator": estimator, "pipeline": {"updates": 8, "slots": 64}}
    words = [estimator, "--pipeline.updates=8", "--pipeline.slots=64", "--pipeline.seed=3"]
    if world is not None:
        fields["world"] = world
        words += ["--world", world]
    assert configuration("a", fields, 3) == ask_learn(words).config


def test_a_table_of_a_world_brings_the_rate_that_suits_it_unless_one_is_given() -> None:
    table = {"estimator": "grpo", "world": {"kind": "carry_addition", "most_digits": 3}}
    by_name = configuration("a", {"estimator": "grpo", "world": "carry-addition"}, 0)
    found = configuration("a", table, 0)
    assert isinstance(found, LearnConfig)
    assert isinstance(by_name, LearnConfig)
    assert found.learning_rate == by_name.learning_rate != LEARNERS["grpo"]().learning_rate
    given = configuration("a", table | {"learning_rate": 0.5}, 0)
    assert isinstance(given, LearnConfig)
    assert given.learning_rate == 0.5


def test_an_arm_of_an_experiment_keeps_time_only() -> None:
    found = configuration("a", {"experiment": "bounded_lag", "staleness": {"eta_batches": 5}}, 4)
    assert isinstance(found, PipelineConfig)
    known = PIPELINES["bounded-lag"]().model_dump()
    known["staleness"]["eta_batches"] = 5
    assert found.model_dump() == known | {"seed": 4}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "either an estimator"),
        ({"estimator": "grpo", "experiment": "groups"}, "either an estimator"),
        ({"estimator": "gropo"}, "did you mean grpo"),
        ({"experiment": "grops"}, "did you mean groups"),
        ({"estimator": "grpo", "world": "nowhere"}, "no world 'nowhere'"),
        ({"estimator": "grpo", "pipeline": {"slotz": 3}}, "pipeline.slotz"),
        ({"experiment": "groups", "slots": "many"}, "slots"),
        ({"estimator": "sao", "pipeline": {"group_size": 8}}, "group_size is 8"),
        ({"estimator": "grpo", "pipeline": 3}, "pipeline"),
    ],
)
def test_what_cannot_be_names_its_arm(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="arm 'mine'") as refused:
        configuration("mine", fields, 0)
    assert said in str(refused.value)


def test_no_combination_is_lost_to_another_of_its_name_and_too_many_are_not_begun() -> None:
    for values in ([32, 32], [1.0000001, 1.0000002]):
        with pytest.raises(ValueError, match="two arms would be called 'slots="):
            arms_of({}, [("slots", values)])
    with pytest.raises(ValueError, match="1,000,000,000 arms are more than 10,000"):
        arms_of({}, [(f"field{i}", list(range(10))) for i in range(9)])


@pytest.mark.parametrize(
    "fields", [{"experiment": "groups", "seed": 7}, {"estimator": "grpo", "pipeline": {"seed": 7}}]
)
def test_an_arm_cannot_say_its_seed(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="arm 'a': seed: 7 is not for an arm to say"):
        configuration("a", fields, 0)
