import math

import pytest

from analysis.measures.alarm import alarm_outcomes, alarm_update
from analysis.measures.collapse import Collapse, Criteria
from tests.analysis.factories import updates_table

CRITERIA = Criteria(alarm_cosine=0.3, alarm_window_updates=3)
# Means of three from update 3 on: 1/8, 1/4, 3/8, 1/2: the first above .3 is at update 5.
RISING = [0.125, 0.125, 0.125, 0.5, 0.5, 0.5]


def test_the_alarm_goes_off_when_the_mean_of_a_whole_window_is_above_the_level():
    assert alarm_update(updates_table(gradient_cosine=RISING), CRITERIA) == 5
    # One high value alone is no window.
    assert alarm_update(updates_table(gradient_cosine=[0.9, 0.0, 0.0, 0.0]), CRITERIA) == math.inf


def test_what_was_never_measured_raises_no_alarm_and_is_not_silent_either():
    assert math.isnan(alarm_update(updates_table(accuracy=[0.1]), CRITERIA))
    assert math.isnan(alarm_update(updates_table(gradient_cosine=[math.nan] * 4), CRITERIA))
    row = alarm_outcomes(updates_table(accuracy=[0.1]), Collapse(happened=True, update=1), CRITERIA)
    assert all(math.isnan(value) for value in row.values())


@pytest.mark.parametrize(
    ("happened", "update", "lead", "false", "missed"),
    [
        (True, 50, 45, None, 0),
        (True, 5, None, None, 1),  # an alarm at the collapse is none
        (True, 4, None, None, 1),
        (False, 80, None, 1, None),
    ],
)
def test_an_alarm_is_a_warning_only_before(happened, update, lead, false, missed):
    event = Collapse(happened=happened, update=update)
    row = alarm_outcomes(updates_table(gradient_cosine=RISING), event, CRITERIA)
    for name, value in {
        "alarm_lead_updates": lead,
        "false_alarm": false,
        "missed_collapse": missed,
    }.items():
        assert math.isnan(row[name]) if value is None else row[name] == value


def test_a_quiet_run_that_never_collapsed_is_right():
    event = Collapse(happened=False, update=4)
    row = alarm_outcomes(updates_table(gradient_cosine=[0.0] * 4), event, CRITERIA)
    assert row["false_alarm"] == 0
    assert math.isnan(row["alarm_update"])
