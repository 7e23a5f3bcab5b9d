"""Closed forms against published values, each other, and drawn numbers."""

import math

import numpy as np
import pytest

from simulator import theory
from simulator.world.lengths import Exponential, Fixed, LogNormalOfLog, Pareto

SIZES = (8, 16, 64, 256, 1024)
PUBLISHED = {
    "exponential": (2.72, 3.38, 4.74, 6.12, 7.51),
    0.5: (1.89, 2.22, 2.93, 3.70, 4.55),
    1.0: (3.08, 4.17, 7.07, 11.2, 16.7),
    1.5: (4.43, 6.74, 14.3, 27.6, 49.9),
    "pareto 2": (2.55, 3.57, 7.10, 14.2, 28.4),
    "pareto 3": (1.83, 2.29, 3.62, 5.74, 9.10),
}


@pytest.mark.parametrize("law", PUBLISHED)
def test_tail_ratios_are_the_published_ones(law):
    ratio = {
        "exponential": theory.tail_ratio_exponential,
        "pareto 2": lambda n: theory.tail_ratio_pareto(n, 2.0),
        "pareto 3": lambda n: theory.tail_ratio_pareto(n, 3.0),
    }.get(law, lambda n: theory.tail_ratio_lognormal(n, law))
    assert [ratio(n) for n in SIZES] == pytest.approx(PUBLISHED[law], rel=0.005)


def test_waits_of_two_machines_for_one_repairer_by_hand():
    # N = 2, c = 1, z = 1: weights 1, 2, 2 for none, one and two at the slot; 2/5 wait, 4/5 are served
    assert theory.slot_wait(2, 1, 1.0) == pytest.approx(0.5)


def test_with_a_slot_for_each_nobody_waits():
    assert theory.slot_wait(7, 7, 0.5) == 0
    assert theory.slot_wait(3, 9, 2.0) == 0


def test_with_hardly_any_time_away_all_but_those_served_wait():
    # each holds a slot one in N / c of the time, so waits N / c - 1
    assert theory.slot_wait(12, 4, 1e-9) == pytest.approx(2.0)


def test_one_slot_by_littles_law():
    # rollouts end at the rate 1 - p_0, and N = rate * (z + W + 1)
    n, z = 9, 4.0
    p_0 = 1 / sum(math.factorial(n) / math.factorial(n - k) / z**k for k in range(n + 1))
    assert theory.slot_wait(n, 1, z) == pytest.approx(n / (1 - p_0) - z - 1)


@pytest.mark.parametrize("n", [1, 2, 8, 64, 1024])
def test_the_general_ratio_is_the_special_ones(n):
    laws = [
        (Exponential(mean_tokens=1e6), theory.tail_ratio_exponential(n)),
        (LogNormalOfLog(mu=14.0, sigma=1.0), theory.tail_ratio_lognormal(n, 1.0)),
        (Pareto(shape=3, minimum_tokens=1e6), theory.tail_ratio_pareto(n, 3.0)),
        (Fixed(tokens=5), 1.0),
    ]
    for law, expected in laws:
        assert theory.tail_ratio(n, law.quantile) == pytest.approx(expected, rel=1e-3)


def test_the_longest_of_one_is_itself():
    assert theory.tail_ratio_exponential(1) == pytest.approx(1)
    assert theory.tail_ratio_lognormal(1, 1.5) == pytest.approx(1)
    assert theory.tail_ratio_pareto(1, 2.5) == pytest.approx(1)


def test_harmonic_numbers_by_hand():
    assert theory.tail_ratio_exponential(4) == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4)
    assert theory.sync_utilisation(theory.tail_ratio_exponential(2)) == pytest.approx(2 / 3)


def test_the_longest_of_drawn_numbers():
    drawn = np.random.default_rng(0).lognormal(0, 1, (100_000, 8))
    # the longest of 8 varies by about 1.0 of its mean: 3 standard errors are 1 %
    assert drawn.max(1).mean() / drawn.mean() == pytest.approx(theory.tail_ratio_lognormal(8, 1.0), rel=0.015)


@pytest.mark.parametrize(
    ("slots", "batch", "group", "rho", "sigma", "queue", "expected"),
    [
        (64, 64, 8, 0.6, 1.0, None, 3.68),
        (128, 64, 8, 0.8, 1.0, None, 6.97),
        (256, 64, 8, 0.6, 1.0, None, 12.94),
        (128, 128, 8, 0.6, 0.5, None, 2.49),
        (64, 64, 8, 1.3, 1.0, 2, 4.03),
        (128, 64, 8, 1.5, 1.0, 1, 4.95),
        (64, 64, 8, 2.0, 0.5, 2, 2.19),
    ],
)
def test_mean_lags_are_the_published_ones(slots, batch, group, rho, sigma, queue, expected):
    ratio = theory.tail_ratio_lognormal(group, sigma)
    found = theory.mean_lag(slots, batch, rho, group_ratio=ratio, queue_batches=queue)
    assert found == pytest.approx(expected, abs=0.006)


def test_the_two_regimes_meet_at_a_load_of_one():
    assert theory.mean_lag(8, 4, 1.0) == pytest.approx(theory.mean_lag(8, 4, 1 + 1e-12, queue_batches=1))


def test_an_endless_queue_has_no_mean_lag():
    with pytest.raises(ValueError, match=r"rho = 1.2 > 1"):
        theory.mean_lag(8, 4, 1.2)


def test_a_pareto_without_a_mean_has_no_ratio():
    with pytest.raises(ValueError, match="infinite mean"):
        theory.tail_ratio_pareto(8, 1.0)


def test_load_by_hand():
    # 10 slots of 5 s give 2 rollouts a second; the trainer takes 8 in 2 s, 4 a second
    assert theory.load(10, 5.0, 8, 2.0) == 0.5


def test_swapping_weights_in_flight_halves_what_a_token_waits():
    kept = theory.token_weighted_lag(64, 64, 0.6, np.sqrt(np.e - 1), swaps_in_flight=False)
    swapped = theory.token_weighted_lag(64, 64, 0.6, np.sqrt(np.e - 1), swaps_in_flight=True)
    assert (kept, swapped) == pytest.approx((3.32, 1.96), abs=0.005)
