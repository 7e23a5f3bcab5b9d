import math

import pytest
import torch

from simulator.lab.tasks.depths import above, mean_turns, turns_at


def test_three_depths_by_hand() -> None:
    # a = 1, m = 4: P(D >= d) = (1/d - 1/5) / (1/2 - 1/5), so 1, 4/9, 1/6.
    tails = above(most=4, tail=1.0)
    assert tails.tolist() == pytest.approx([4 / 9, 1 / 6])
    assert mean_turns(tails) == pytest.approx(2 + 4 / 9 + 1 / 6)
    shares = torch.tensor([0.0, 0.5, 5 / 9 + 1e-9, 0.83, 5 / 6 + 1e-9, 1 - 2**-33], dtype=torch.float64)
    assert turns_at(shares, tails).tolist() == [2, 2, 3, 3, 4, 4]


def test_a_cap_of_two_leaves_one_depth() -> None:
    tails = above(most=2, tail=1.0)
    assert turns_at(torch.tensor([0.0, 0.99], dtype=torch.float64), tails).tolist() == [2, 2]
    assert mean_turns(tails) == 2


@pytest.mark.parametrize("tail", [0.5, 1.0, 2.0])
def test_far_from_the_cap_the_tail_is_a_power(tail: float) -> None:
    # P(D >= 2d) / P(D >= d) = 2^-a without a cap; a cap of m changes it by O((d / m)^a).
    tails = above(most=10**6, tail=tail)
    at_least_10, at_least_20 = tails[10 - 3].item(), tails[20 - 3].item()
    assert math.log2(at_least_10 / at_least_20) == pytest.approx(tail, abs=3 * (20 / 10**6) ** tail)


@pytest.mark.parametrize(("most", "tail"), [(1, 1.0), (40, 0.0), (40, math.nan)])
def test_refused(most: int, tail: float) -> None:
    with pytest.raises(ValueError, match="most >= 2 and tail > 0"):
        above(most=most, tail=tail)
