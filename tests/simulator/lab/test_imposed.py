"""What an independent script found in this world: fresh data learns, data 64 updates old collapses."""

import numpy as np

from algorithms.estimator import Estimator
from algorithms.grpo import grpo, grpo_behaviour_clip
from simulator.lab.imposed import learn_at_lag
from tests.simulator.lab.worlds import learner, world


def accuracies(estimator: Estimator, *, lag: int, rate: float, updates: int, seed: int = 0) -> np.ndarray:
    steps = learn_at_lag(
        learner(estimator, rate=rate, seed=seed),
        world(seed),
        lag_updates=lag,
        updates=updates,
        rollouts_per_update=128,
        group_size=8,
    )
    return np.array([step["accuracy"] for step in steps])


def test_fresh_data_learns() -> None:
    # the script: 0.64 to 0.87 after 1,500 updates, by learning rate
    assert accuracies(grpo(), lag=0, rate=4e-3, updates=600)[-1] > 0.6


def test_uncorrected_stale_data_collapses_when_the_law_says() -> None:
    """(t_c - S) eta = 1.4 to 1.5 at S = 64, eta = 1.6e-2: t_c near 64 + 90 updates."""
    for seed in (0, 1):
        scores = accuracies(grpo(), lag=64, rate=1.6e-2, updates=300, seed=seed)
        peak = np.maximum.accumulate(scores)
        down = np.flatnonzero((scores < 0.6 * peak) & (peak > 0.15))
        assert len(down)
        assert 64 + 1.0 / 1.6e-2 < down[0] < 64 + 2.2 / 1.6e-2
        assert scores[-1] < 0.25


def test_a_clip_against_the_behaviour_policy_prevents_it() -> None:
    assert accuracies(grpo_behaviour_clip(), lag=64, rate=1.6e-2, updates=400)[-1] > 0.4


def test_lag_is_exactly_what_was_asked() -> None:
    student = learner(grpo())
    steps = list(
        learn_at_lag(student, world(), lag_updates=3, updates=5, rollouts_per_update=16, group_size=8)
    )
    # nothing drifts while the data is the trainer's own: updates 0 only; afterwards the ratio moves
    assert steps[0]["ess_token"] > 1 - 1e-6
    assert all(step["ess_token"] < 1 for step in steps[1:])
