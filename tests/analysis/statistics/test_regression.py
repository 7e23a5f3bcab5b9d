import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import log_ndtr

from analysis.statistics.regression import least_squares, logistic, truncated_lines

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(60), RNG.normal(size=60)])
Y = X @ [1.0, 2.0] + 0.3 * RNG.normal(size=60)
ONES = np.ones((1, 60))


def test_least_squares_is_numpys_and_a_weight_is_a_repetition():
    weights = RNG.integers(0, 3, size=(1, 60)).astype(float)
    repeated = np.repeat(np.arange(60), weights[0].astype(int))
    expected = np.linalg.lstsq(X[repeated], Y[repeated])[0]
    assert least_squares(X, Y, weights)[0] == pytest.approx(expected)


def test_a_design_without_one_solution_has_none():
    assert np.isnan(least_squares(np.ones((5, 2)), np.arange(5.0), np.ones((1, 5)))).all()


def test_a_far_ceiling_leaves_least_squares():
    far = np.full(60, 100.0)
    assert truncated_lines(X, Y, far, ONES)[0] == pytest.approx(least_squares(X, Y, ONES)[0])


def test_a_line_without_scatter_is_that_line_wherever_it_is_cut():
    y = X @ [1.0, 2.0]
    assert truncated_lines(X, y, y + 0.1, ONES)[0] == pytest.approx([1.0, 2.0])


def test_the_truncated_fit_is_the_maximum_of_the_likelihood():
    seen = Y < 1.5
    x, y, ceiling = X[seen], Y[seen], np.full(seen.sum(), 1.5)

    def loss(p):
        sigma = np.exp(p[2])
        mean = x @ p[:2]
        return -(stats.norm.logpdf(y, mean, sigma) - log_ndtr((ceiling - mean) / sigma)).sum()

    expected = optimize.minimize(loss, [0.0, 1.0, 0.0], method="Nelder-Mead", tol=1e-10).x[:2]
    assert truncated_lines(x, y, ceiling, np.ones((1, len(y))))[0] == pytest.approx(expected, rel=1e-4)


def test_what_could_not_be_seen_bends_least_squares_and_not_this():
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(20_000), rng.normal(size=20_000)])
    y = x @ [0.0, 1.0] + rng.normal(size=20_000)
    seen = y < 1.0
    weights, ceiling = np.ones((1, seen.sum())), np.full(seen.sum(), 1.0)
    assert least_squares(x[seen], y[seen], weights)[0, 1] < 0.75
    assert truncated_lines(x[seen], y[seen], ceiling, weights)[0] == pytest.approx([0.0, 1.0], abs=0.05)


def test_firths_penalty_by_hand():
    # One cell: (k + 1/2) / (n + 1) is its estimate, Jeffreys' prior.
    for k in (0, 3, 10):
        fitted = logistic(np.ones((1, 1)), np.array([[float(k)]]), np.array([[10.0]]))
        assert fitted[0, 0] == pytest.approx(np.log((k + 0.5) / (10 - k + 0.5)))


def test_the_logistic_fit_is_the_maximum_of_the_penalised_likelihood():
    design = np.column_stack([np.ones(5), np.arange(5.0) - 2])
    trials = np.full((1, 5), 8.0)
    events = np.array([[0.0, 1, 4, 7, 8]])

    def loss(b):
        p = 1 / (1 + np.exp(-design @ b))
        information = design.T @ ((trials[0] * p * (1 - p))[:, None] * design)
        likelihood = events[0] @ np.log(p) + (trials - events)[0] @ np.log1p(-p)
        return -(likelihood + np.linalg.slogdet(information)[1] / 2)

    expected = optimize.minimize(loss, [0.0, 1.0], method="Nelder-Mead", tol=1e-10).x
    assert logistic(design, events, trials)[0] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_separated_cells_have_an_estimate():
    design = np.column_stack([np.ones(4), np.arange(4.0) - 1.5])
    fitted = logistic(design, np.array([[0.0, 0, 8, 8]]), np.full((1, 4), 8.0))
    assert np.isfinite(fitted).all()
    assert fitted[0] == pytest.approx([0.0, fitted[0, 1]], abs=1e-6)  # the middle is the boundary
