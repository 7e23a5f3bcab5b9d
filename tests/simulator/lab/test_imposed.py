"""What an independent script found in this world: fresh data learns, data 64 updates old collapses."""

import numpy as np
import pytest

from simulator.lab.imposed import imposed_traffic, member_lags, run_imposed
from tests.simulator.lab.worlds import imposed


def accuracies(estimator: str, *, lag: int, rate: float, updates: int, seed: int = 0) -> np.ndarray:
    run = run_imposed(imposed(estimator, lag=lag, updates=updates, learning_rate=rate, seed=seed))
    return run.log.updates["accuracy"].to_numpy()


def test_fresh_data_learns() -> None:
    # the script: 0.64 to 0.87 after 1,500 updates, by learning rate
    assert accuracies("grpo", lag=0, rate=4e-3, updates=600)[-1] > 0.6


def test_uncorrected_stale_data_collapses_when_the_law_says() -> None:
    """(t_c - S) eta = 1.4 to 1.5 at S = 64, eta = 1.6e-2: t_c near 64 + 90 updates."""
    for seed in (0, 1):
        scores = accuracies("grpo", lag=64, rate=1.6e-2, updates=300, seed=seed)
        peak = np.maximum.accumulate(scores)
        down = np.flatnonzero((scores < 0.6 * peak) & (peak > 0.15))
        assert len(down)
        assert 64 + 1.0 / 1.6e-2 < down[0] < 64 + 2.2 / 1.6e-2
        assert scores[-1] < 0.25


def test_a_clip_against_the_behaviour_policy_prevents_it() -> None:
    assert accuracies("grpo_behaviour_clip", lag=64, rate=1.6e-2, updates=400)[-1] > 0.4


def test_lag_is_exactly_what_was_asked() -> None:
    student = imposed("grpo", lag=3, updates=6, rollouts=16)
    versions = [
        {part.version for (part,) in t.parts} for t in imposed_traffic(student.config.pipeline, lag_updates=3)
    ]
    assert versions == [{0}, {0}, {0}, {0}, {1}, {2}]
    log = run_imposed(student).log
    assert log.updates["token_lag"].to_pylist() == [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    lag = log.rollouts["consumed_version"].to_numpy() - log.rollouts["oldest_version"].to_numpy()
    assert lag.reshape(6, 16).tolist() == [[n] * 16 for n in (0, 1, 2, 3, 3, 3)]
    # nothing drifts while the data is the trainer's own
    assert log.updates["ess_token"][0].as_py() > 1 - 1e-6
    assert all(ess < 1 for ess in log.updates["ess_token"].to_pylist()[1:])


def test_versions_mixed_in_a_group_have_the_same_mean_lag() -> None:
    lags = member_lags(16, 8, 8)
    assert lags.tolist() == [8, 10, 13, 15, 17, 19, 22, 24]
    assert lags.mean() == 16
    assert member_lags(16, 8, 1).tolist() == [16]
    log = run_imposed(imposed("grpo", lag=16, updates=40, rollouts=16, imposed_lag_spread=8)).log
    assert log.updates["token_lag"].to_pylist()[24:] == [16.0] * 16


def test_a_spread_beyond_the_lag_is_refused() -> None:
    with pytest.raises(ValueError, match="imposed_lag_spread is 3, imposed_lag_updates 2"):
        imposed("grpo", lag=2, updates=1, imposed_lag_spread=3)


def test_equal_seeds_give_equal_logs() -> None:
    first, again, other = (
        run_imposed(
            imposed(
                "sao",
                lag=4,
                updates=12,
                rollouts=16,
                group_size=1,
                critic_updates=2,
                critic_update_s=1.0,
                seed=seed,
            )
        ).log
        for seed in (0, 0, 1)
    )
    assert first.digest() == again.digest() != other.digest()
