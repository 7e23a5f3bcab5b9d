"""Cores: what is written is read again, parts are everybody's own, what has no meaning is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from full_runs.configs.cores import SETTINGS, as_text, numbers, shared_out
from full_runs.configs.ready_gpus import qwen3_8b
from full_runs.configs.record import FullConfig

SETS = st.sets(st.integers(0, 200), min_size=1, max_size=60).map(lambda found: tuple(sorted(found)))


@given(SETS)
def test_what_is_written_is_read_again_and_nothing_shorter_says_it(cores: tuple[int, ...]) -> None:
    text = as_text(cores)
    assert numbers(text) == numbers(list(cores)) == cores
    ends = [int(part.rpartition("-")[2]) for part in text.split(",")]
    starts = [int(part.partition("-")[0]) for part in text.split(",")]
    assert all(start > end + 1 for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize(
    ("given", "text"),
    [("0", "0"), (3, "3"), ("6,0-3", "0-3,6"), (" 0 - 1 , 2", "0-2"), ((5, 4), "4-5"), (["0-1", 7], "0-1,7"),
     ("00", "0")],
)  # fmt: skip
def test_forms_of_the_same(given: Any, text: str) -> None:
    config = FullConfig(trainer_cores=given, engine_cores=given)
    assert (config.trainer_cores, config.engine_cores) == (text, text)
    assert FullConfig.model_validate_json(config.model_dump_json()) == config


@given(SETS, st.integers(1, 12))
def test_parts_are_disjoint_contiguous_and_of_one_size_and_nothing_is_left(
    cores: tuple[int, ...], parts: int
) -> None:
    many = len(cores) // parts * parts
    own = cores[:many]
    if not own:
        return
    shared = shared_out(as_text(own), parts)
    assert len(shared) == parts
    assert {len(part) for part in shared} == {many // parts}
    # One behind another they are the whole: so none is in two, and each is a run of neighbours.
    assert tuple(core for part in shared for core in part) == own


@given(SETS, st.integers(1, 6))
def test_more_ranks_than_cores_stand_on_them_equally_often(cores: tuple[int, ...], times: int) -> None:
    shared = shared_out(as_text(cores), times * len(cores))
    assert list(shared) == [(core,) for core in cores for _ in range(times)]


def test_no_cores_are_nobodys() -> None:
    assert shared_out(None, 4) == ()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "'' is no list of cores"),
        (" ", "no list of cores"),
        ((), r"\(\) names no core"),
        ("0,", "'0,' is no list of cores"),
        ("all", "'all' is no list of cores such as 0-3,6"),
        ("-1", "no list of cores"),
        (-1, "-1 is no list of cores"),
        (True, "True is no list of cores"),
        ([0, True], "no list of cores"),
        (1.0, "1.0 is no list of cores"),
        ("1.5", "no list of cores"),
        ("3-1", "3-1 is no range of cores"),
        ("0-65536", "0-65536 is no range of cores"),
        ("0-99999999999", "no list of cores"),
        ("٣", "no list of cores"),
        ("0-2,1", "'0-2,1' names core 1 twice"),
        ([4, 4], r"\[4, 4\] names core 4 twice"),
        ({"0": 1}, "no list of cores"),
    ],
)
@pytest.mark.parametrize("field", SETTINGS)
def test_what_names_no_cores_is_refused(field: str, value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        FullConfig.model_validate({field: value})
    assert field in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"trainer_cores": "0-2", "ranks": 2}, r"trainer_cores \(0-2\) are 3 and ranks is 2: neither is"),
        ({"trainer_cores": "0-1", "ranks": 3}, r"trainer_cores \(0-1\) are 2 and ranks is 3"),
        ({"engine_cores": "0-4", "engines": 2}, r"engine_cores \(0-4\) are 5 and engines is 2"),
        ({"engine_cores": "0-3", "engines": 2, "engine_threads": 3},
         r"engine_threads \(3\) are more than the cores of an engine \(2 of engine_cores 0-3\)"),
        ({"engine_cores": "0", "engines": 2, "engine_threads": 2}, r"an engine \(1 of engine_cores 0\)"),
        ({"engine_cores": "0", "engine_urls": ["http://127.0.0.1:1"]},
         "engine_cores is 0 and engine_urls names 1: engines that run already"),
        ({"controller_cores": "0"}, "controller_cores is 0 and trainer_cores None: what it starts"),
        ({"controller_cores": "0", "trainer_cores": "1"}, "controller_cores is 0 and engine_cores None"),
        ({"trainer_cores": "0-1", "ranks": 2, "trainer_nodes": 2},
         "trainer_cores is 0-1 and trainer_nodes 2: they are cores of one host"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name_and_value(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        FullConfig.model_validate(fields)


@pytest.mark.parametrize("field", SETTINGS)
def test_gpus_have_no_cores_to_share_out(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is 0-5 and gpus 8"):
        qwen3_8b(**{field: "0-5"})


def test_the_trainer_may_have_cores_beside_engines_elsewhere() -> None:
    config = FullConfig(trainer_cores="0", engine_urls=("http://127.0.0.1:1",), engine_threads=8)
    assert config.trainer_cores == "0"
