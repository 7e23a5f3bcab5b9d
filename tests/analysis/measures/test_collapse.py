import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.collapse import Criteria, collapse, fate, final_score, non_finite
from tests.analysis.factories import updates_table

CRITERIA = Criteria(collapse_window_updates=3, target=0.8, chance=0.1)


def ends(*values: float, criteria: Criteria = CRITERIA):
    return collapse(updates_table(accuracy=values), criteria)


def test_a_fall_that_lasts_is_dated_at_its_first_update():
    event = ends(0.5, 0.9, 0.5, 0.5, 0.5, 0.9)
    assert (event.happened, event.update, event.cause) == (True, 3, "below running maximum")


def test_a_shorter_fall_is_none_and_is_censored_at_the_budget():
    event = ends(0.5, 0.9, 0.5, 0.5, 0.9, 0.9)
    assert (event.happened, event.update, event.cause) == (False, 6, "")


def test_a_fall_that_the_budget_cuts_short_is_censored():
    assert not ends(0.9, 0.9, 0.5, 0.5).happened


def test_exactly_at_the_share_is_not_below_it():
    assert not ends(1.0, 0.6, 0.6, 0.6, 0.6).happened
    assert ends(1.0, 0.599, 0.599, 0.599).happened


def test_a_run_that_never_learned_cannot_collapse():
    # The running maximum 0.15 is above chance 0.1 by less than a tenth of the way to 1.
    noise = [0.15, 0.02, 0.02, 0.02, 0.02, 0.02]
    assert not ends(*noise).happened
    assert fate(updates_table(accuracy=noise), CRITERIA) == "stalled"


def test_unmeasured_updates_neither_end_a_fall_nor_lengthen_it():
    assert ends(0.9, 0.5, math.nan, 0.5).happened  # down at 2 and at 4: three updates
    assert not ends(0.9, 0.5, math.nan, math.nan).happened


def test_infinite_or_refused_numbers_are_a_collapse_at_once():
    assert ends(0.9, 0.9, math.inf, 0.9).cause == "non-finite"
    table = updates_table(accuracy=[0.5, 0.5, 0.5], refused=[0.0, 1.0, 0.0])
    assert collapse(table, CRITERIA).update == 2
    fell_first = updates_table(accuracy=[0.9, 0.1, 0.1, 0.1, 0.1], refused=[0.0, 0.0, 0.0, 0.0, 1.0])
    assert collapse(fell_first, CRITERIA).update == 2
    table = updates_table(accuracy=[0.5, 0.5, 0.5], gradient_norm=[1.0, 1.0, math.nan])
    assert collapse(table, CRITERIA).update == 3
    unmeasured = updates_table(accuracy=[0.5, 0.5], gradient_norm=[math.nan, math.nan])
    assert not non_finite(unmeasured, "accuracy").any()


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=40), window=st.integers(1, 6))
def test_the_event_is_the_one_that_a_slow_reading_of_the_rule_finds(values, window):
    criteria = Criteria(collapse_window_updates=window, chance=0.0, learned_gain=0.1)
    found = None
    for i in range(len(values) - window + 1):
        spell = range(i, i + window)
        if all(values[j] < 0.6 * max(values[: j + 1]) and max(values[: j + 1]) >= 0.1 for j in spell):
            found = i + 1
            break
    event = ends(*values, criteria=criteria)
    assert event.happened == (found is not None)
    assert event.update == (found if found is not None else len(values))


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_run_that_only_rises_never_collapses(values):
    assert not ends(*sorted(values)).happened


def test_the_four_fates():
    rising = np.linspace(0.1, 0.7, 30)
    flat = np.concatenate([np.linspace(0.1, 0.5, 10), np.full(20, 0.5)])
    fates = [
        fate(updates_table(accuracy=values), CRITERIA)
        for values in (rising, flat, rising + 0.25, np.concatenate([rising, np.full(5, 0.1)]))
    ]
    assert fates == ["still learning", "stalled", "reached target", "collapsed"]


def test_the_final_score_is_the_mean_of_the_last_twentieth():
    values = np.arange(100.0)
    assert final_score(updates_table(accuracy=values), CRITERIA) == 97.0  # of 95 .. 99


def test_impossible_criteria_are_refused():
    with pytest.raises(ValueError, match=r"target 0.1 is not above chance 0.2"):
        Criteria(target=0.1, chance=0.2)
    with pytest.raises(ValueError, match="collapse_share"):
        Criteria(collapse_share=1.5)
