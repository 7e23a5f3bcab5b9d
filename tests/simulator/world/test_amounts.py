"""Means, shapes and limits of amounts."""

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from simulator.world.amounts import Amount

MIDPOINTS = (np.arange(400_000) + 0.5) / 400_000


@pytest.mark.parametrize(
    "amount",
    [
        Amount(mean=3.0),
        Amount(mean=3.0, law="exponential"),
        Amount(mean=3.0, law="lognormal", cv=1.5),
        Amount(mean=3.0, law="pareto", tail_index=3.0),
    ],
)
def test_the_mean_is_what_it_says(amount):
    assert amount.quantile(MIDPOINTS).mean() == pytest.approx(3.0, rel=2e-3)


def test_a_lognormal_has_its_coefficient_of_variation():
    drawn = Amount(mean=2.0, law="lognormal", cv=0.5).quantile(MIDPOINTS)
    assert drawn.std() / drawn.mean() == pytest.approx(0.5, rel=1e-2)


def test_the_tail_of_a_pareto_law():
    # alpha 2, mean 2: the least is 1, and P(X > 10) = 1/100
    with pytest.warns(UserWarning, match="variance is infinite"):  # D21; with a limit, as below, it is not
        amount = Amount(mean=2.0, law="pareto", tail_index=2.0)
    np.testing.assert_allclose(amount.quantile(np.array([0.0, 0.99])), [1.0, 10.0])


def test_what_is_larger_ends_at_the_limit():
    amount = Amount(mean=2.0, law="pareto", tail_index=2.0, most=5.0)
    assert amount.quantile(np.array([0.99, 1 - 2.0**-53])).tolist() == [5.0, 5.0]


def test_a_number_is_a_constant():
    assert TypeAdapter(Amount).validate_python(1.5) == Amount(mean=1.5)
    assert Amount().is_zero


@pytest.mark.parametrize(
    "bad",
    [
        -1.0,
        float("inf"),
        {"mean": 1.0, "law": "lognormal"},
        {"mean": 1.0, "cv": 2.0},
        {"mean": 1.0, "law": "pareto", "tail_index": 1.0},
    ],
)
def test_what_is_no_amount_is_refused(bad):
    with pytest.raises(ValidationError):
        TypeAdapter(Amount).validate_python(bad)
