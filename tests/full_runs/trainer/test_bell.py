"""Whoever waits is woken, by every ring that nobody heard so far, and never kept longer than it said."""

import threading
import time

import pytest

from full_runs.trainer import bell
from full_runs.trainer.bell import Bell, ring

LONG_S = 60.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bell"


def test_a_ring_wakes_who_waits(path):
    waits = Bell(path)
    ringing = threading.Timer(0.05, ring, [path])
    ringing.start()
    start_s = time.monotonic()
    waits.wait(LONG_S)
    assert time.monotonic() - start_s < LONG_S / 2
    ringing.join()


def test_rings_before_the_wait_are_heard_once(path):
    waits = Bell(path)
    for _ in range(3):
        ring(path)
    start_s = time.monotonic()
    waits.wait(LONG_S)
    assert time.monotonic() - start_s < LONG_S / 2
    waits.wait(0.2)  # nothing is left to be heard: it lasts
    assert time.monotonic() - start_s >= 0.2


def test_a_pipe_nobody_reads_any_more_is_rung_in_vain_and_without_harm(path):
    waits = Bell(path)
    ring(path)
    del waits
    ring(path)
    ring(path.with_name("absent"))
    assert not path.with_name("absent").exists()


def test_without_pipes_a_wait_is_short(tmp_path, monkeypatch):
    absent = tmp_path / "no folder" / "bell"
    monkeypatch.setattr(bell, "POLL_S", 0.0)
    start_s = time.monotonic()
    Bell(absent).wait(LONG_S)
    assert time.monotonic() - start_s < LONG_S / 2
