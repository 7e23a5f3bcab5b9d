"""The built-in law against the trace that it was derived from."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from simulator.world.deepseek_r1 import KNOT_PROBABILITIES, KNOT_TOKENS, fit_quantile_knots
from simulator.world.lengths import DeepSeekR1, mean_tokens

TRACE = Path(__file__).parents[4] / "shared/data/servegen_deepseek_r1_output_tokens_pmf.csv.gz"


@pytest.fixture(scope="module")
def trace():
    if not TRACE.exists():
        pytest.skip(f"the ServeGen trace is not here: {TRACE.name}")
    with gzip.open(TRACE, "rt") as file:
        rows = [(int(row["tokens"]), float(row["prob"])) for row in csv.DictReader(file)]
    tokens, weights = map(np.array, zip(*rows, strict=True))
    return tokens, weights / weights.sum()


def test_knots_rise_from_zero_to_one():
    assert len(KNOT_TOKENS) == len(KNOT_PROBABILITIES) == 33
    assert (KNOT_PROBABILITIES[0], KNOT_PROBABILITIES[-1]) == (0, 1)
    assert (np.diff(KNOT_PROBABILITIES) > 0).all()
    assert (np.diff(KNOT_TOKENS) > 0).all()


def test_quantiles_of_a_sample_by_hand():
    tokens, weights = np.array([10, 20, 40]), np.array([1.0, 2.0, 1.0])
    assert fit_quantile_knots(tokens, weights, (0.0, 0.25, 0.26, 0.75, 1.0)) == (10, 10, 20, 20, 40)


def test_the_knots_are_the_quantiles_of_the_trace(trace):
    assert fit_quantile_knots(*trace) == KNOT_TOKENS


def test_the_law_is_close_to_the_trace(trace):
    tokens, weights = trace
    law = DeepSeekR1()
    u = (np.arange(1_000_000) + 0.5) / 1_000_000
    drawn = np.bincount(law.quantile(u), minlength=tokens.max() + 1).cumsum() / len(u)
    seen = np.bincount(tokens, weights, minlength=tokens.max() + 1).cumsum()
    assert np.abs(drawn - seen).max() < 0.01
    assert mean_tokens(law) == pytest.approx(tokens @ weights, rel=0.01)
