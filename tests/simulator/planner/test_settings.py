"""Each system's own count of the same bound."""

from __future__ import annotations

from typing import get_args

import pytest

from simulator.planner.settings import KNOBS, NO_KNOB, in_words, knob
from simulator.rules.systems.shape import Shape
from simulator.systems.every import AnySystem

SHAPE = Shape(batch_rollouts=64, group_size=1, updates_per_batch=4, slots=256)


def test_every_system_has_a_bound_or_a_reason() -> None:
    names = {system.model_fields["kind"].default for system in get_args(AnySystem)}
    assert set(KNOBS) | set(NO_KNOB) == names
    assert not set(KNOBS) & set(NO_KNOB)


def test_words_by_hand() -> None:
    assert in_words(knob("areal")(2, SHAPE)) == {
        "max_head_offpolicyness": 2,
        "max_concurrent_rollouts": 256,
    }
    assert in_words(knob("prime-rl")(2, SHAPE)) == {"max_off_policy_steps": 11}  # 3 batches of 4, less one
    assert in_words(knob("nemo_in_order")(2, SHAPE)) == {"window_steps": 3}  # a window of one is on-policy
    assert in_words(knob("verl_v1_drop")(2, SHAPE))["max_age_steps"] == 3  # data of this step is 1 old
    assert in_words(knob("open_instruct")(2, SHAPE)) == {"async_steps": 3}  # fresh data is one step off
    assert in_words(knob("pipelinerl")(2, SHAPE)) == {"max_lag_samples": 128}
    assert in_words(knob("verl-fully-async")(1, SHAPE))["staleness_threshold"] == 1.0


@pytest.mark.parametrize("name", KNOBS)
def test_what_is_as_old_as_the_bound_is_trained(name: str) -> None:
    rule = knob(name)(2, SHAPE).rule(SHAPE)
    oldest = 2 * SHAPE.updates_per_batch  # at the first update of a batch
    assert not rule.age_limit(oldest)
    assert not rule.abort(oldest)


def test_systems_without_a_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="slime has no staleness bound to plan: what a sync aborts"):
        knob("slime")
    with pytest.raises(ValueError, match="no system 'nothing'; those with a bound are areal"):
        knob("nothing")
