"""verl's table balances, and lengths can be told from the two runs that they are fitted to."""

import numpy as np
import pytest

from simulator.validation.verl_async import (
    APART,
    COLOCATED,
    FITTED,
    Lengths,
    asynchronous_run,
    colocated_run,
    fit,
    waves,
)


def test_published_steps_are_waits_and_updates_and_four_seconds():
    for measured in APART.values():
        assert 4.0 <= measured.overhead_s <= 4.4
    assert COLOCATED.overhead_s == pytest.approx(10.72)


def test_the_fit_recovers_the_lengths_that_made_its_targets():
    made = Lengths(mean=2400.0, sigma=0.6)
    found = fit(*waves(made, draws=4), draws=4)
    assert found.mean == pytest.approx(made.mean, rel=1e-3)
    assert found.sigma == pytest.approx(made.sigma, rel=1e-3)


def test_a_colocated_step_is_generation_then_training_then_the_switch():
    lengths = Lengths(mean=300.0, sigma=0.3)
    updates = colocated_run(lengths, steps=3).log.updates.to_pandas()
    trained_s = updates.train_end_s - updates.train_start_s
    np.testing.assert_allclose(trained_s, COLOCATED.log_prob_s + COLOCATED.update_s)
    np.testing.assert_allclose(updates.published_s - updates.train_end_s, COLOCATED.overhead_s)
    generation_s = (updates.train_start_s - updates.wait_start_s).mean()
    assert generation_s == pytest.approx(waves(lengths, draws=8)[0], rel=0.1)


def test_an_asynchronous_step_is_waits_and_updates_and_overhead():
    done = asynchronous_run(Lengths(mean=300.0, sigma=0.3), 0.3, pushes=3)
    updates = done.log.updates.to_pandas()
    pushes = updates.groupby("published_s")
    steps_s = np.diff(sorted(pushes.groups), prepend=0.0)
    waits_s = (updates.train_start_s - updates.wait_start_s).groupby(updates.published_s).sum()
    np.testing.assert_allclose(steps_s, waits_s + FITTED.update_s + FITTED.overhead_s)
    assert (pushes.size() == 4).all()
