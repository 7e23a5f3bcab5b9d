import numpy as np
import pytest

from analysis.measures.compute import compute_hours
from analysis.measures.outcomes import outcomes
from analysis.study import summarise
from tests.analysis.factories import learning_run, recorded, run_of
from tests.analysis.measures.test_outcomes import CRITERIA


def test_an_hour_of_work_by_hand():
    # Each hour: the engine works its first quarter, the trainer the other three.
    run = learning_run([0.1, 0.2])
    at = np.array([900.0, 1800.0, 3600.0, 7200.0])
    assert compute_hours(run, at) == pytest.approx([0.25, 0.5, 1.0, 2.0])
    assert outcomes(run, CRITERIA)["compute_hours"] == pytest.approx(2.0)


def test_an_engine_is_one_machine_however_many_slots_decode():
    recorder = recorded([0.1])
    for slot, (start_s, end_s) in enumerate([(0.0, 900.0), (600.0, 1200.0)], start=1):
        recorder.add_interval(
            resource=f"engine-0/slot-{slot}", state="busy", cause="decode", start_s=start_s, end_s=end_s
        )
    recorder.add_interval(resource="engine-1/slot-0", state="busy", cause="decode", start_s=0.0, end_s=900.0)
    # Engine 0: the union of three slots is 20 minutes; engine 1: 15; the trainer: 45.
    assert compute_hours(run_of(recorder), np.array([3600.0])) == pytest.approx([80 / 60])


def test_the_critic_is_charged():
    recorder = recorded([0.1])
    recorder.add_interval(resource="trainer", state="busy", cause="critic_update", start_s=0.0, end_s=900.0)
    assert compute_hours(run_of(recorder), np.array([3600.0])) == pytest.approx([1.25])


def test_a_log_without_machines_has_no_machine_hours():
    recorder = recorded([0.1])
    recorder.intervals[:] = []
    assert np.isnan(compute_hours(run_of(recorder), np.array([3600.0]))).all()


def test_every_update_of_a_study_knows_what_was_spent_by_then():
    study = summarise([learning_run([0.1, 0.2, 0.3])], CRITERIA)
    assert study.updates["compute_hours"].tolist() == pytest.approx([1, 2, 3])
