"""Constants that a simulation was given must be found again in its log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.runs import Run, from_log
from full_runs.calibrate.fit import fit, part_of
from full_runs.calibrate.observe import served, standing_still, worked_s
from full_runs.calibrate.speed import NAMES, foretold_s, speed
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run

ENGINE = {
    "kind": "load_dependent",
    "step_fixed_s": 0.01,
    "step_s_per_rollout": 1e-4,
    "step_s_per_kv_token": 1e-6,
}


def recorded(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "slots": 64,
        "engines": 2,
        "engine": ENGINE,
        "rollouts_per_update": 32,
        "updates": 120,
        "policy_update_s": 1.0,
        "policy_update_s_per_token": 1e-4,
        "push_s": 0.5,
        "lengths": {"kind": "exponential", "mean_tokens": 200},
        "staleness": {"kind": "skyrl", "max_staleness_steps": 2},
    }
    config = PipelineConfig.model_validate(fields | changes)
    return from_log(run(config).log, arm="planted", seed=0, clock="simulated")


def two_at_once() -> Run:
    """On one engine: 4 tokens from 0 to 8 s beside 2 tokens from 4 to 8 s."""
    log = recorded(updates=2)
    row = {"engine": 0, "turns": 1, "status": "trained", "submitted_s": 0.0}
    rollouts = pd.DataFrame(
        [
            {**row, "started_s": 0.0, "finished_s": 8.0, "action_tokens": 4},
            {**row, "started_s": 4.0, "finished_s": 8.0, "action_tokens": 2},
        ]
    ).reindex(columns=log.rollouts.columns)
    return Run(
        arm="two",
        seed=0,
        clock="wall",
        rollouts=rollouts,
        segments=log.segments.head(0),
        updates=log.updates,
        intervals=log.intervals.head(0),
    )


def test_two_rollouts_by_hand():
    own = served(two_at_once())
    assert own.seconds.tolist() == [8.0, 4.0]
    assert own.running.tolist() == [1.5, 2.0]
    # The first holds 0 to 4 tokens, 2 on average; the second 0 to 2, over half of the first one's time.
    assert own.held_tokens.tolist() == [2.5, 3 + 1.0]
    assert own.arrivals.tolist() == [2.0, 1.0]


def test_time_in_which_an_engine_stood_still_is_not_worked():
    stops = np.array([[2.0, 3.0], [5.0, 9.0]])
    assert worked_s(np.array([0.0, 2.0, 2.5, 3.0, 5.0, 7.0, 10.0]), stops).tolist() == [0, 2, 2, 2, 4, 4, 5]


def test_slots_of_an_engine_stand_still_together_and_each_engine_for_itself():
    columns = ("resource", "state", "cause", "start_s", "end_s")
    rows = [
        ("engine-0/slot-0", "idle", "sync", 1.0, 2.0),
        ("engine-0/slot-1", "idle", "sync", 1.5, 2.5),
        ("engine-1/slot-0", "idle", "sync", 7.0, 8.0),
        ("engine-1/slot-0", "idle", "gate_closed", 0.0, 7.0),
        ("trainer", "busy", "push", 1.0, 2.5),
    ]
    found = standing_still(pd.DataFrame(rows, columns=columns))
    assert {engine: spans.tolist() for engine, spans in found.items()} == {0: [[1.0, 2.5]], 1: [[7.0, 8.0]]}


def test_a_step_that_was_planted_is_found():
    log = recorded()
    constants = fit(log, part_of(log, 0.1, 1.0), prompt_tokens=0).engine
    a, b, c = (constants[name].estimate for name in NAMES[2:])
    assert constants["request_s"].estimate == pytest.approx(0, abs=2e-3)
    assert constants["prefill_s"].estimate == pytest.approx(0, abs=1e-4)
    # The three are hard to tell apart while 20 to 32 rollouts run: what they come to there is not.
    assert c == pytest.approx(1e-6, rel=0.2)
    own = served(log)
    n, held = own.running.mean(), own.held_tokens.mean()
    assert a + b * n + c * held == pytest.approx(0.01 + 1e-4 * n + 1e-6 * held, rel=0.01)


def test_a_second_run_with_fewer_rollouts_at_once_tells_the_constants_apart():
    one, other = recorded(), recorded(slots=8)
    parts = [part_of(log, 0.1, 1.0) for log in (one, other)]
    found = fit(one, parts[0], prompt_tokens=0, more=[(other, parts[1])])
    planted = {"step_fixed_s": 0.01, "step_s_per_rollout": 1e-4, "step_s_per_kv_token": 1e-6}
    for name, seconds in planted.items():
        assert found.engine[name].estimate == pytest.approx(seconds, rel=0.25), name
    assert found.running[0] < 5 < 25 < found.running[1]


def test_a_prefill_that_was_planted_is_found():
    log = recorded(engine=ENGINE | {"prefill_s_per_token": 1e-3}, prompt_tokens=100)
    constants = fit(log, part_of(log, 0.1, 1.0), prompt_tokens=100).engine
    assert constants["prefill_s"].estimate == pytest.approx(0.1, rel=0.05)


def test_what_was_foretold_of_the_rollouts_adds_up_to_what_they_took():
    log = recorded()
    own = served(log)
    assert foretold_s(own, speed(own)).sum() == pytest.approx(own.seconds.sum(), rel=0.005)


def test_update_and_push_times_are_found():
    log = recorded()
    found = fit(log, part_of(log, 0.1, 1.0), prompt_tokens=0)
    assert found.policy_update_s.estimate == pytest.approx(1.0, rel=1e-6)
    assert found.policy_update_s_per_token.estimate == pytest.approx(1e-4, rel=1e-6)
    assert found.push_s.estimate + found.save_s.estimate == pytest.approx(0.5, rel=1e-6)


def test_too_little_to_fit_is_said():
    log = recorded(updates=2)
    with pytest.raises(ValueError, match="of 2 updates 1 lie in the part"):
        part_of(log, 0.0, 0.5)
    with pytest.raises(ValueError, match="2 rollouts were finished in the part to fit; needed are 20"):
        speed(served(two_at_once()))
