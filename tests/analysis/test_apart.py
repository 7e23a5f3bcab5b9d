from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.apart import arms_apart, differences


def test_seeds_alone_make_no_other_arm() -> None:
    configs = [{"seed": seed, "pipeline": {"seed": seed, "slots": 4}} for seed in range(3)]
    assert arms_apart(["sao"] * 3, configs) == ["sao"] * 3
    assert differences(configs) == [{}, {}, {}]


def test_what_differs_becomes_part_of_the_name() -> None:
    configs = [{"in_flight": 6, "seed": 0}, {"in_flight": 12, "seed": 0}, {"in_flight": 6, "seed": 1}]
    assert arms_apart(["sao", "sao", "sao"], configs) == [
        "sao, in_flight 6",
        "sao, in_flight 12",
        "sao, in_flight 6",
    ]
    # Another arm has settings of its own, and nothing to be told from.
    assert arms_apart(["sao", "grpo", "sao"], configs) == ["sao", "grpo", "sao"]


def test_as_few_settings_as_tell_them_apart() -> None:
    configs: list[dict[str, Any]] = [
        {"updates": 10, "staleness": {"kind": "sync"}, "slots": 4},
        {"updates": 10, "staleness": {"kind": "bounded", "eta": 2}, "slots": 4},
        {"updates": 10, "staleness": {"kind": "bounded", "eta": 4}, "slots": 8},
    ]
    assert arms_apart(["a"] * 3, configs) == ["a, eta none", "a, eta 2", "a, eta 4"]
    assert differences(configs)[2] == {"staleness.kind": "bounded", "staleness.eta": "4", "slots": "8"}


def test_how_long_a_run_was_says_least() -> None:
    configs = [{"updates": 10, "slots": 4}, {"updates": 20, "slots": 8}, {"updates": 30, "slots": 8}]
    assert arms_apart(["a", "a"], configs[:2]) == ["a, slots 4", "a, slots 8"]
    assert arms_apart(["a"] * 3, configs)[1:] == ["a, slots 8, updates 20", "a, slots 8, updates 30"]


def test_two_settings_with_one_last_name_are_told_whole() -> None:
    configs = [{"a": {"n": i}, "b": {"n": j}} for i in (1, 2) for j in (1, 2)]
    assert arms_apart(["x"] * 4, configs)[3] == "x, a.n 2, b.n 2"


def test_no_runs_and_no_settings() -> None:
    assert arms_apart([], []) == []
    assert arms_apart(["a", "b"], [{}, {}]) == ["a", "b"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.dictionaries(st.sampled_from("xyz"), st.integers(0, 1), max_size=3),
        ),
        max_size=6,
    )
)
def test_names_are_equal_where_arm_and_settings_are_and_nowhere_else(
    runs: list[tuple[str, dict[str, int]]],
) -> None:
    names = arms_apart([arm for arm, _ in runs], [config for _, config in runs])
    for (own, mine), name in zip(runs, names, strict=True):
        for (other, theirs), another in zip(runs, names, strict=True):
            assert (name == another) is ((own, mine) == (other, theirs))
