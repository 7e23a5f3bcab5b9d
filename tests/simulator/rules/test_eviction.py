"""What is thrown away, with both bounds pinned by hand."""

import subprocess
import sys

import pytest

from simulator.rules.eviction import drop_by_age, drop_oldest_beyond, keep_all, never_overflows


def test_reject_iff_the_lag_is_more_than_the_limit():
    # B04: limit 2, lags 0, 1, 2, 3: accept, accept, accept, reject
    assert [drop_by_age(2)(lag) for lag in range(4)] == [False, False, False, True]


def test_a_limit_of_zero_rejects_what_saw_a_second_version():
    assert not drop_by_age(0)(0)
    assert drop_by_age(0)(1)


def test_overflow_is_what_exceeds_the_capacity():
    assert [drop_oldest_beyond(5)(queued) for queued in (0, 5, 6, 9)] == [0, 0, 1, 4]


def test_keep_everything():
    assert not keep_all(10**9)
    assert never_overflows(10**9) == 0


def test_impossible_limits_are_refused():
    with pytest.raises(ValueError, match="max_lag_updates must be at least 0, got -1"):
        drop_by_age(-1)
    with pytest.raises(ValueError, match="capacity_rollouts must be at least 1, got 0"):
        drop_oldest_beyond(0)


def test_rules_log_and_theory_load_neither_simpy_nor_torch():
    modules = "simulator.rules.staleness, simulator.eventlog, simulator.theory, simulator.ledger"
    script = f"import sys, {modules}; print([m for m in ('simpy', 'torch') if m in sys.modules])"
    path = f"import sys; sys.path[:0] = {sys.path!r}; "
    done = subprocess.run([sys.executable, "-c", path + script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
