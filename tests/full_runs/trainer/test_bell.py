"""Whoever waits is woken, by every ring that nobody heard so far, and never kept longer than it said."""

import os
import resource
import shutil
import threading
import time

import pytest

from full_runs.trainer import bell
from full_runs.trainer.bell import Bell, ring

LONG_S = 60.0
FILES = 1200


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


def test_it_is_heard_however_many_files_are_open(path):
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < FILES + 100:
        pytest.skip(f"at most {most} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES + 100, most))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(FILES)]
    try:
        waits = Bell(path)
        ring(path)
        start_s = time.monotonic()
        waits.wait(LONG_S)
        assert time.monotonic() - start_s < LONG_S / 2
        del waits
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def test_a_pipe_nobody_reads_any_more_is_rung_in_vain_and_without_harm(path):
    waits = Bell(path)
    ring(path)
    del waits
    ring(path)
    ring(path.with_name("absent"))
    assert not path.with_name("absent").exists()


def test_a_folder_can_be_copied_once_it_is_removed(path):
    waits = Bell(path)
    with pytest.raises(shutil.Error, match="named pipe"):
        shutil.copytree(path.parent, path.parent / "before")
    waits.remove()
    waits.remove()
    shutil.rmtree(path.parent / "before")
    shutil.copytree(path.parent, path.parent.with_name("after"))


def test_without_pipes_a_wait_is_short(tmp_path, monkeypatch):
    absent = tmp_path / "no folder" / "bell"
    monkeypatch.setattr(bell, "POLL_S", 0.0)
    start_s = time.monotonic()
    Bell(absent).wait(LONG_S)
    assert time.monotonic() - start_s < LONG_S / 2
