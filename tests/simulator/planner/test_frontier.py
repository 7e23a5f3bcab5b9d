"""No setting on the frontier is dominated; every other is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.planner.frontier import frontier, knee
from simulator.planner.regime import regime

points = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 10)), min_size=1, max_size=40)


def dominates(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """No slower, no older, and not equal."""
    return one[0] >= other[0] and one[1] <= other[1] and one != other


@given(points)
def test_the_frontier_is_what_nothing_dominates(found: list[tuple[int, int]]) -> None:
    kept = frontier([p[0] for p in found], [p[1] for p in found])
    undominated = {p for p in found if not any(dominates(other, p) for other in found)}
    assert {found[i] for i in kept} == undominated
    assert len(kept) == len(undominated)  # equals are there once
    assert [found[i][1] for i in kept] == sorted(found[i][1] for i in kept)


@given(points, st.floats(0, 0.5))
def test_nothing_older_gains_more_than_the_knee_gives_up(found: list[tuple[int, int]], gain: float) -> None:
    throughput = [float(p[0]) for p in found]
    along = frontier(throughput, [p[1] for p in found])
    chosen = knee(throughput, along, gain=gain)
    assert chosen in along
    assert max(throughput) <= (1 + gain) * throughput[chosen]
    fresher = along[: along.index(chosen)]
    assert all(max(throughput) >= (1 + gain) * throughput[i] for i in fresher)


def test_the_knee_by_hand() -> None:
    # 80 -> 100 gains 25 %; 100 -> 104 gains 4 %.
    assert knee([80.0, 100.0, 104.0], [0, 1, 2]) == 1
    assert knee([100.0, 104.0], [0, 1]) == 0
    with pytest.raises(ValueError, match="no knee"):
        knee([], [])


def test_regimes_by_hand() -> None:
    said = [
        regime(synchronous=s, trainer_idle=t, slots_idle=i, dropped=d)
        for s, t, i, d in (
            (True, float("nan"), 0.5, 0.0),
            (False, 0.4, 0.0, 0.0),
            (False, 0.0, 0.4, 0.0),
            (False, 0.0, 0.0, 0.4),  # decoding in vain is as good as waiting
            (False, 0.2, 0.3, 0.0),
            (False, 0.05, 0.05, 0.0),
        )
    ]
    assert said == [
        "synchronous best",
        "rollout-bound",
        "train-bound",
        "train-bound",
        "barrier-bound",
        "balanced",
    ]
