import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.lag import lag_summary, rollout_lags, token_lags, weighted_quantiles
from analysis.measures.lag_split import lag_split
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


def test_every_number_of_a_summary_by_hand():
    # 2 of 8 tokens at lag 4, 2 at 2, 4 at 0: half the weight lies at 0, 90 % within 4.
    summary = lag_summary(np.array([4.0, 2.0, 0.0]), np.array([2.0, 2.0, 4.0]))
    assert summary == {
        "n": 8.0, "min": 0.0, "mean": 1.5, "p50": 0.0, "p90": 4.0, "p99": 4.0, "max": 4.0,
        "method": "inverted weighted CDF",
    }  # fmt: skip


def test_what_has_no_weight_is_not_there():
    with_zeros = lag_summary(np.array([9.0, 1.0, 3.0]), np.array([0.0, 1.0, 1.0]))
    assert with_zeros == lag_summary(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    assert lag_summary(np.array([9.0]), np.array([0.0]))["n"] == 0


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=20),
    st.floats(0.01, 100),
)
def test_quantiles_do_not_depend_on_the_unit_of_the_weights(pairs, unit):
    values, weights = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    levels = np.array([0.25, 0.5, 0.9, 0.99])
    repeated = np.repeat(values, weights.astype(int))
    expected = np.quantile(repeated, levels, method="inverted_cdf")
    assert weighted_quantiles(values, weights * unit, levels).tolist() == expected.tolist()


def test_no_rollout_has_no_lag_rather_than_lag_0():
    assert np.isnan(lag_summary(np.array([]))["mean"])


def test_a_validation_that_newer_weights_answered_has_no_lag():
    # Asked for at version 4 and not waited for; weights 6 answered. It never meets the trainer.
    recorder = Recorder()
    recorder.add_rollout(
        rollout_id=0, status="validation", oldest_version=6, consumed_version=4, consumed_s=1.0
    )
    recorder.add_segment(rollout_id=0, version=6, tokens=5)
    run = run_of(recorder)
    assert token_lags(run.rollouts, run.segments).empty
    assert rollout_lags(run.rollouts, run.segments).empty
    assert lag_split(run.rollouts, run.updates).empty
