import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from analysis.measures.lengths import ks_distance, length_bias, length_table
from simulator.eventlog import Recorder
from tests.analysis.factories import run_of


def traffic() -> Recorder:
    """Trained 10 and 20, dropped 60 (too old), left 30, aborted at 5, in flight towards 1000."""
    recorder = Recorder()
    for rollout, (status, tokens, reason, finished) in enumerate(
        (
            ("trained", 10, None, 1.0),
            ("trained", 20, None, 1.0),
            ("dropped", 60, "too_old", 1.0),
            ("queued", 30, None, 1.0),
            ("dropped", 5, "aborted", None),
            ("in_flight", 1000, None, None),
        )
    ):
        recorder.add_rollout(
            rollout_id=rollout, status=status, action_tokens=tokens, reason=reason, finished_s=finished
        )
    return recorder


def test_lengths_by_fate_by_hand():
    table = length_table(run_of(traffic()).rollouts).set_index("fate")
    assert table["mean_tokens"].to_dict() == {
        "generated": 30.0, "trained": 15.0, "dropped: aborted": 5.0, "dropped: too_old": 60.0, "left": 30.0,
    }  # fmt: skip
    assert table["ratio"].to_dict()["trained"] == 0.5
    # Of the generated 10, 20, 30, 60 half are no longer than 20; of the trained all are.
    assert table["ks"].to_dict()["trained"] == 0.5
    assert table["unfinished"].to_dict()["dropped: aborted"] == 1
    assert table["rollouts"].to_dict()["generated"] == 4


def test_the_bias_of_a_run_is_its_table_in_short():
    assert length_bias(run_of(traffic()).rollouts) == {
        "generated_length_tokens": 30.0,
        "trained_length_tokens": 15.0,
        "length_ratio": 0.5,
        "length_ks": 0.5,
    }


def test_nothing_has_no_length_and_no_distance():
    bias = length_bias(run_of(Recorder()).rollouts)
    assert all(np.isnan(value) for value in bias.values())


samples = st.lists(st.integers(0, 20), min_size=1, max_size=30)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the p value, which nobody asked for
@given(samples, samples)
def test_the_distance_is_scipys(one, other):
    ours = ks_distance(np.array(one, dtype=float), np.array(other, dtype=float))
    assert ours == pytest.approx(ks_2samp(one, other, method="asymp").statistic)
