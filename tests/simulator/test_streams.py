"""Streams do not repeat each other."""

import pytest

from simulator.streams import stream

PURPOSES = ("lengths", "prompts", "environment", "failures", "sampling")


def test_sixteen_workers_draw_sixteen_sequences():
    # D13: seed + rank + worker would give only 7
    first = {
        tuple(stream(42, "environment", rank, worker).random(3)) for rank in range(4) for worker in range(4)
    }
    assert len(first) == 16


def test_purposes_entities_and_seeds_are_apart():
    keys = [
        (seed, purpose, *entity)
        for seed in (0, 1, 2)
        for purpose in PURPOSES
        for entity in ((), (0,), (1,), (0, 0))
    ]
    assert len({tuple(stream(*key).random(3)) for key in keys}) == len(keys)


def test_the_same_stream_is_the_same():
    assert stream(7, "lengths", 3).random() == stream(7, "lengths", 3).random()


def test_an_unknown_purpose_is_refused():
    with pytest.raises(ValueError, match="no stream is called 'luck'"):
        stream(0, "luck")
