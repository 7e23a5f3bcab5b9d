"""Do failures come as often as asked, each from a stream of its own?"""

from itertools import islice

import numpy as np
import pytest
from pydantic import ValidationError

from simulator.world.failures import EnvironmentFailures, Failures, Faults, drawn_faults


def test_nothing_fails_unless_asked():
    assert drawn_faults(Failures(), seed=3) == Faults()


def test_attempts_fail_with_their_probability_at_any_token():
    failures = EnvironmentFailures(0.05, seed=1)
    drawn = [failures.fails_after(place, 0, 10) for place in range(40_000)]
    where = [tokens for tokens in drawn if tokens is not None]
    assert len(where) == pytest.approx(2000, abs=4 * np.sqrt(40_000 * 0.05 * 0.95))
    counts = np.bincount(where, minlength=11)
    assert counts[0] == 0
    assert counts[1:] == pytest.approx(200, abs=4 * np.sqrt(200))


def test_a_third_of_groups_of_eight_lose_a_member_at_five_per_cent():
    failures = EnvironmentFailures(0.05, seed=7)
    fails = [[failures.fails_after(8 * g + m, 0, 5) is not None for m in range(8)] for g in range(10_000)]
    complete = np.mean([not any(group) for group in fails])
    assert complete == pytest.approx(0.95**8, abs=4 * np.sqrt(0.663 * 0.337 / 10_000))


def test_who_fails_does_not_depend_on_who_is_asked_first():
    asked = [(place, attempt) for place in (0, 5, 9000, 40_000, 3) for attempt in (0, 1, 2)]
    first, second = EnvironmentFailures(0.5, seed=2), EnvironmentFailures(0.5, seed=2)
    forth = {key: first.fails_after(*key, 100) for key in asked}
    back = {key: second.fails_after(*key, 100) for key in reversed(asked)}
    assert forth == back
    assert len({forth[0, attempt] for attempt in range(3)}) > 1  # an attempt does not repeat the last one


def test_times_between_crashes_have_their_mean_and_differ_between_engines():
    faults = drawn_faults(Failures(engine_crash_every_s=100.0, engine_restart_s=7.0), seed=0)
    up, down = np.array(list(islice(faults.outages(0), 4000))).T
    assert up.mean() == pytest.approx(100, rel=0.06)
    assert (down == 7).all()
    assert next(faults.outages(1)) != next(faults.outages(0)) == (up[0], 7)


def test_another_kind_of_failure_changes_no_draw():
    alone = drawn_faults(Failures(trainer_stall_every_s=50.0), seed=4)
    both = drawn_faults(Failures(trainer_stall_every_s=50.0, engine_crash_every_s=9.0), seed=4)
    next(both.outages(0))
    assert list(islice(alone.stalls, 9)) == list(islice(both.stalls, 9))


def test_the_first_engines_are_the_stragglers():
    always = drawn_faults(Failures(slow_engines=2, slow_factor=3.0), seed=0)
    assert [always.slow_from_the_start(engine) for engine in range(4)] == [3, 3, 1, 1]
    assert always.slow_spells is None
    some = drawn_faults(Failures(slow_engines=1, slow_factor=3.0, slow_every_s=10.0, slow_for_s=30.0), seed=0)
    assert some.slow_from_the_start is None
    assert some.slow_spells(1) is None
    assert np.mean(list(islice(some.slow_spells(0), 4000)), axis=0) == pytest.approx([10, 30], rel=0.06)


@pytest.mark.parametrize(
    "given",
    [
        {"environment_failure_probability": 1.0},
        {"engine_crash_every_s": 0.0},
        {"slow_factor": 2.0},
        {"slow_factor": 0.5, "slow_engines": 1},
        {"slow_engines": 1, "slow_every_s": 5.0},
        {"group_deadline_s": 0.0},
        {"unknown": 1},
    ],
)
def test_impossible_failures_are_refused(given):
    with pytest.raises(ValidationError):
        Failures(**given)


def test_pushes_break_off_with_their_probability_after_any_part_of_the_engines():
    breaks_off = drawn_faults(Failures(push_failure_probability=0.2), seed=5).push_breaks_off
    drawn = [breaks_off(4) for _ in range(10_000)]
    where = [done for done in drawn if done is not None]
    assert len(where) == pytest.approx(2000, abs=4 * np.sqrt(10_000 * 0.2 * 0.8))
    assert np.bincount(where, minlength=5)[:4] == pytest.approx(500, abs=4 * np.sqrt(500))
    assert max(where) == 3
