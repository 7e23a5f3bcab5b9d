"""Settings that contradict one another are refused by name and value."""

from __future__ import annotations

from typing import Any

import pytest

from full_runs.configs.record import FullConfig
from full_runs.configs.text_worlds import Python, Questions
from full_runs.folder import MAY_DIFFER

ASKED = {"model": "folder", "world": Questions(path="q.jsonl", python=Python(wall_s=60.0))}


@pytest.mark.parametrize("patience_s", [1.0, 60.0])
def test_an_environment_is_waited_for_longer_than_its_programs_run(patience_s: float) -> None:
    why = rf"environment_timeout_s \({patience_s:g}\) is not more than world.python.wall_s \(60\)"
    with pytest.raises(ValueError, match=why):
        FullConfig(**ASKED, environment_timeout_s=patience_s)
    assert FullConfig(**ASKED, environment_timeout_s=61.0).environment_timeout_s == 61


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"gpus": 2}, "gpus is 2 and model None"),
        ({"model": "folder"}, "world is addition and model folder"),
        ({"tokens_at_once": 0}, "tokens_at_once"),
        ({"max_gradient_norm": 0.0}, "max_gradient_norm"),
        ({"max_gradient_norm": float("nan")}, "max_gradient_norm"),
        ({"precision": "float16"}, "precision"),
        ({"engine_memory": 1.0}, "engine_memory"),
        ({"trainer_nodes": 0}, "trainer_nodes"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        FullConfig(**fields)


def test_micro_batches_of_the_tiny_model_may_be_small() -> None:
    assert FullConfig(tokens_at_once=8).tokens_at_once == 8


def test_an_unfinished_run_may_change_machines_and_not_what_it_learns() -> None:
    assert FullConfig.model_fields.keys() >= MAY_DIFFER
    learned = {"precision", "max_gradient_norm", "learning_rate", "estimator", "world", "staleness", "seed"}
    assert not MAY_DIFFER & learned
