"""Lengths as a function of seed, prompt and member."""

import numpy as np
import pytest

from simulator.world.drawn import DrawnLengths
from simulator.world.lengths import Exponential, LogNormalOfLog

LAW = Exponential(mean_tokens=1000)


def lengths(drawn, prompts, group_size):
    return np.array([[drawn.length_tokens(p, m) for m in range(group_size)] for p in prompts])


def test_the_order_of_asking_does_not_matter():
    # D15: who else draws, and when, changes no length
    forwards = lengths(DrawnLengths(LAW, 5, 4), range(9000), 4)
    backwards = lengths(DrawnLengths(LAW, 5, 4), range(8999, -1, -1), 4)[::-1]
    assert (forwards == backwards).all()
    assert DrawnLengths(LAW, 5, 4).length_tokens(8000, 3) == forwards[8000, 3]


def test_another_seed_draws_other_lengths():
    first, second = (lengths(DrawnLengths(LAW, seed, 1), range(100), 1) for seed in (0, 1))
    assert (first != second).mean() > 0.9


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_a_copula_joins_members_and_leaves_the_law(correlation):
    drawn = lengths(DrawnLengths(LogNormalOfLog(mu=9.0, sigma=1.0), 1, 8, correlation), range(20_000), 8)
    normal = np.log(drawn) - 9.0
    # 20,000 prompts: the mean of correlated normals has a standard error of at most .007
    assert normal.mean() == pytest.approx(0, abs=0.025)
    assert normal.std() == pytest.approx(1, abs=0.025)
    found = np.corrcoef(normal.T)[np.triu_indices(8, 1)].mean()
    assert found == pytest.approx(correlation, abs=0.02)


@pytest.mark.parametrize("correlation", [-0.1, 1.0, float("nan")])
def test_impossible_correlations_are_refused(correlation):
    with pytest.raises(ValueError, match="correlation"):
        DrawnLengths(LAW, 0, 2, correlation)


def test_a_group_has_members():
    with pytest.raises(ValueError, match="group_size"):
        DrawnLengths(LAW, 0, 0)
