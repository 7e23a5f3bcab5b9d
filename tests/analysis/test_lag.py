import numpy as np
import pytest

from analysis.lag import lag_summary, lag_table, rollout_lags, token_lags
from simulator.eventlog import Recorder
from tests.analysis.factories import run_of


def mixed_versions() -> Recorder:
    """Case B03: versions 2, 4, 6 with 2, 2, 8 tokens, trainer at 6; and a placeholder without tokens."""
    recorder = Recorder()
    recorder.add_rollout(rollout_id=7, action_tokens=12, status="trained", consumed_version=6)
    recorder.add_rollout(rollout_id=8, action_tokens=0, status="trained", consumed_version=6)
    for version, tokens in ((2, 2), (4, 2), (6, 8)):
        recorder.add_segment(rollout_id=7, version=version, start_token=0, tokens=tokens)
    recorder.add_segment(rollout_id=8, version=6, start_token=0, tokens=0)
    return recorder


def test_a_rollout_of_three_versions_has_an_oldest_a_newest_and_two_different_means():
    run = run_of(mixed_versions())
    table = rollout_lags(run.rollouts, run.segments)
    assert table["rollout_id"].tolist() == [7]  # the placeholder does not pull anything to 0
    (row,) = table.to_dict("records")
    assert (row["oldest"], row["newest"], row["mean"], row["mean_over_segments"]) == (4, 0, 1.0, 2.0)
    assert row["tokens"] == 12


def test_dropped_rollouts_count_as_offered_not_as_trained_and_unconsumed_ones_have_no_lag():
    recorder = Recorder()
    for rollout, status, consumed in ((0, "trained", 3), (1, "dropped", 9), (2, "queued", None)):
        recorder.add_rollout(rollout_id=rollout, status=status, consumed_version=consumed)
        recorder.add_segment(rollout_id=rollout, version=1, start_token=0, tokens=4)
    run = run_of(recorder)
    table = lag_table(run.rollouts, run.segments)
    rows = table.loc[table["weighting"].str.startswith("rollout")].set_index("population")
    assert rows["mean"].to_dict() == {"offered": 5.0, "trained": 2.0, "dropped": 8.0}
    assert rows["n"].to_dict() == {"offered": 2, "trained": 1, "dropped": 1}


def test_a_token_newer_than_the_trainer_is_an_error_not_a_negative_lag():
    recorder = Recorder()
    recorder.add_rollout(rollout_id=3, status="trained", consumed_version=1)
    recorder.add_segment(rollout_id=3, version=2, start_token=0, tokens=1)
    run = run_of(recorder)
    with pytest.raises(ValueError, match=r"rollout 3 .* version 1 .* version 2"):
        token_lags(run.rollouts, run.segments)


def test_p99_of_1_to_20_interpolates_and_says_so():
    # Case D18: linear 19.81, inverted CDF 20: the method must be named.
    summary = lag_summary(np.arange(1.0, 21.0))
    assert summary["p99"] == pytest.approx(19.81)
    assert summary["method"] == "linear interpolation"
    assert summary["n"] == 20


def test_weighting_by_tokens_is_repeating_each_lag_once_a_token():
    rng = np.random.default_rng(1)
    lags, tokens = rng.integers(0, 30, 40).astype(float), rng.integers(1, 9, 40)
    one_by_one = np.repeat(lags, tokens)
    summary = lag_summary(lags, tokens.astype(float))
    assert summary["mean"] == pytest.approx(one_by_one.mean())
    assert summary["p99"] == np.quantile(one_by_one, 0.99, method="inverted_cdf")
    assert summary["n"] == len(one_by_one)


def test_no_rollout_has_no_lag_rather_than_lag_0():
    assert np.isnan(lag_summary(np.array([]))["mean"])
