"""What engines hold, and what they no longer do."""

from __future__ import annotations

import gc
import weakref

import pytest

from simulator.lab.models.versions import Versions
from tests.simulator.lab.models.small import network


def test_versions_must_rise_even_past_forgotten_ones():
    versions: Versions[str] = Versions()
    versions.publish(4, "a")
    versions.forget(9)
    with pytest.raises(ValueError, match="version 4 is not newer than 4"):
        versions.publish(4, "b")


def test_nothing_older_than_asked_is_kept():
    versions: Versions[str] = Versions()
    for version in (0, 2, 4, 6):
        versions.publish(version, str(version))
    versions.forget(4)
    assert list(versions) == [(4, "4"), (6, "6")]
    assert versions.of(6) == "6"
    for gone in (2, 5):
        with pytest.raises(ValueError, match=rf"no engine holds version {gone}; 2 are held: 4\.\.6"):
            versions.of(gone)


def test_an_empty_store_says_so():
    with pytest.raises(ValueError, match="0 are held: none"):
        Versions().of(0)


def test_what_is_forgotten_is_freed():
    versions = Versions()
    weights = network().snapshot()
    seen = weakref.ref(weights.vector)
    versions.publish(0, weights)
    versions.forget(1)
    del weights
    gc.collect()
    assert seen() is None
