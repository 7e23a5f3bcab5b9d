import math

import numpy as np
import pytest

from analysis.measures.collapse import Criteria
from analysis.measures.recovery import recoveries, recovery_outcomes, trailing_mean
from tests.analysis.factories import updates_table

# Updates 1 to 4 at 0.8; shifted after 4: .2, .2, .76, .76; shifted after 8, never again above .4.
CURVE = [0.8, 0.8, 0.8, 0.8, 0.2, 0.2, 0.76, 0.76, 0.4, 0.4, 0.4, 0.4]
CRITERIA = Criteria(shift_updates=(4, 8), recovery_window_updates=1)


def test_a_shift_by_hand():
    table = recoveries(updates_table(accuracy=CURVE), CRITERIA)
    assert table["shift"].tolist() == [4, 8]
    assert table["level"].tolist() == [0.8, 0.76]
    assert table["lowest"].tolist() == pytest.approx([0.2, 0.4])
    # .76 >= .9 x .8 is measured at update 7, three after the shift; .4 < .9 x .76 for good.
    assert table["recovered_after"].tolist()[0] == 3
    assert math.isnan(table["recovered_after"].tolist()[1])
    assert table["watched"].tolist() == [4, 4]


def test_a_shift_that_was_not_recovered_from_counts_as_long_as_it_was_watched():
    row = recovery_outcomes(updates_table(accuracy=CURVE), CRITERIA)
    assert row["recovery_updates"] == pytest.approx((3 + 4) / 2)
    assert row["recovered_share"] == 0.5
    assert row["recovery_updates_after_4"] == 3
    assert math.isnan(row["recovery_updates_after_8"])


def test_stale_data_that_keep_the_score_up_for_a_while_are_no_recovery():
    curve = [0.8, 0.8, 0.8, 0.8, 0.3, 0.3, 0.8]  # falls two updates after the shift
    table = recoveries(updates_table(accuracy=curve), Criteria(shift_updates=(2,), recovery_window_updates=1))
    assert table["recovered_after"].tolist() == [5]


def test_a_run_that_had_learned_nothing_has_nothing_to_come_back_to():
    row = recovery_outcomes(updates_table(accuracy=[0.8] * 4 + [0.0] * 8), CRITERIA)
    assert math.isnan(row["recovery_updates_after_8"])
    assert row["recovery_updates"] == 4
    assert row["recovered_share"] == 0


def test_the_smoothed_score_does_not_reach_back_across_the_shift():
    criteria = Criteria(shift_updates=(4,), recovery_window_updates=4)
    table = recoveries(updates_table(accuracy=[0.8] * 4 + [0.1, 0.3, 0.8, 0.8, 0.8, 0.8]), criteria)
    assert table["lowest"].tolist() == [0.1]
    # Means after the shift: .1, .2, .4, .5, .675, .8; the level .72 is reached at the sixth.
    assert table["recovered_after"].tolist() == [6]


def test_a_run_that_ended_before_the_shift_says_nothing_of_it():
    row = recovery_outcomes(updates_table(accuracy=[0.8, 0.8]), CRITERIA)
    assert math.isnan(row["recovery_updates"])
    assert math.isnan(row["recovered_share"])
    assert math.isnan(row["recovery_updates_after_4"])


def test_a_trailing_mean_counts_updates_not_measurements():
    versions, values = np.array([1.0, 2, 10]), np.array([3.0, 5, 7])
    assert trailing_mean(versions, values, 2).tolist() == [3, 4, 7]


def test_shifts_come_in_order():
    with pytest.raises(ValueError, match="not positive and rising"):
        Criteria(shift_updates=(8, 4))
    assert Criteria(shift_updates=[4, 8]).shift_updates == (4, 8)  # as JSON hands them over
