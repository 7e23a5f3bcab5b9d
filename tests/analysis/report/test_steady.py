import json

from analysis.measures.steady import steady_states
from analysis.report.steady import steady_numbers, steady_text
from tests.analysis.factories import recorded, run_of


def test_a_line_a_measure_with_its_interval_and_the_same_numbers():
    found = steady_states(run_of(recorded([0.1] * 240, lag=2, step_s=10.0)))
    lines = steady_text(found).splitlines()
    assert lines[4] == "trainer waits     0.25 [0.25, 0.25], first 0 left out"
    assert len(lines) == 3 + len(found)
    numbers = json.loads(json.dumps(steady_numbers(found), allow_nan=False))
    assert numbers["trainer_idle"]["high"] == 0.25
    assert numbers["mean_lag"]["batches"] == 20


def test_without_an_interval_it_says_why_and_has_no_nan():
    found = steady_states(run_of(recorded([0.1] * 8)))
    assert "trainer waits     0.25, no interval: 8 values; 100 are needed" in steady_text(found)
    numbers = json.loads(json.dumps(steady_numbers(found), allow_nan=False))
    assert set(numbers["mean_lag"]) == {"estimate", "batches", "values_left_out", "note"}
    assert steady_text({}) == ""
