"""A row holds when its criterion says so, and says what it compared."""

import json

import numpy as np
import pytest

from simulator.command_line import BadInputError
from simulator.validation.ask import ask, names_of_checks, text, to_json
from simulator.validation.row import Row, above, inside_interval, known_to_miss, within
from simulator.validation.steady import batch_means, settled

ABOUT = {"about": "mean lag", "source": "theory", "n": 100}


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (within(0.03, expected=2.0, simulated=2.05, **ABOUT), True),
        (within(0.03, expected=2.0, simulated=1.93, **ABOUT), False),
        (known_to_miss(0.1, 0.2, expected=2.0, simulated=2.3, **ABOUT), True),
        (known_to_miss(0.1, 0.2, expected=2.0, simulated=2.0, **ABOUT), False),
        (above(expected=1.0, simulated=1.01, **ABOUT), True),
        (above(expected=1.0, simulated=1.0, **ABOUT), False),
        # 3.29 / 1.96 times 0.1 is 0.168.
        (inside_interval(expected=1.0, simulated=1.16, half_width=0.1, **ABOUT), True),
        (inside_interval(expected=1.0, simulated=1.17, half_width=0.1, **ABOUT), False),
    ],
)
def test_a_row_holds_as_its_criterion_says(row: Row, holds: bool):
    assert row.holds is holds


def test_a_formula_that_is_known_to_miss_fails_when_it_does_not():
    row = known_to_miss(0.1, 0.2, expected=2.0, simulated=2.01, **ABOUT)
    assert not row.holds
    assert "known to miss, 10 to 20 %: FAILS" in text([row])


def test_batch_means_cover_the_mean_of_a_correlated_series_as_often_as_they_say():
    """An AR(1) series of coefficient 0.8: an interval from single values would be three times too narrow."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        noise = rng.normal(size=2000)
        series = np.empty(2000)
        series[0] = noise[0] / 0.6
        for t in range(1, 2000):
            series[t] = 0.8 * series[t - 1] + noise[t]
        mean, half_width = batch_means(series)
        covered += abs(mean) <= half_width
    # 95 % of 400 are 380; four standard errors are 17.
    assert 360 <= covered <= 397


def test_the_start_is_left_out_and_too_short_a_series_refused():
    np.testing.assert_array_equal(settled(range(8)), np.arange(2, 8))
    with pytest.raises(ValueError, match="at least 40 values, got 39"):
        batch_means(np.zeros(39))


def test_the_answer_in_json_has_no_number_that_is_none():
    row = within(0.1, expected=0.0, simulated=0.0, **ABOUT)
    said = json.loads(to_json([row]))
    assert said["holds"] is True
    assert said["rows"][0]["error"] is None
    assert said["rows"][0]["half_width"] is None


def test_lines_fit_a_terminal():
    row = within(0.03, expected=123.456, simulated=123.4567, half_width=0.0123, **ABOUT)
    assert max(map(len, text([row]).splitlines())) <= 80


def test_an_unknown_check_is_named():
    assert ask([]).checks == names_of_checks()
    assert ask(["closed-form"]).checks == ["closed_form"]
    with pytest.raises(BadInputError, match="no check 'magic'; there are little"):
        ask(["magic"])
    with pytest.raises(BadInputError, match="jobs must be at least 1, got 0"):
        ask(["--jobs", "0"])
