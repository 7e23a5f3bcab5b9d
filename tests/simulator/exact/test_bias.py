"""The tables: laws that hold in every world."""

import numpy as np
import pandas as pd
import pytest

from algorithms.catalogue import by_name
from simulator.exact.bias import REFERENCES, sweep, table
from simulator.exact.world import ascent
from tests.simulator.exact.test_gradient import ON_POLICY_REINFORCE


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return table({name: by_name()[name]() for name in ON_POLICY_REINFORCE}, lags=[0, 4], worlds=3)


def test_every_world_lag_and_estimator_has_its_row(found: pd.DataFrame):
    assert len(found) == 3 * 2 * (len(ON_POLICY_REINFORCE) + len(REFERENCES))
    assert not found.duplicated(["world", "lag", "estimator"]).any()
    assert np.isfinite(found.drop(columns=["drift", "estimator"])).all(axis=None)


def test_fresh_data_has_no_bias(found: pd.DataFrame):
    fresh = found[found.lag == 0]
    assert fresh.relative_bias.max() < 1e-10
    assert fresh.drift_nats.max() == fresh.flat.max() == 0
    for column in ("component", "cosine"):
        np.testing.assert_allclose(fresh[column], 1, rtol=1e-10)


def test_the_references_say_what_the_prefix_costs(found: pd.DataFrame):
    stale = found[found.lag == 4].set_index("estimator")
    assert stale.loc["sequence-ratio", "relative_bias"].max() < 1e-10
    assert stale.loc["token-ratio", "relative_bias"].min() > 1e-3
    assert set(stale.scale.round(12)) == {0.5, 1.0}


def test_bias_cosine_and_component_are_one_triangle(found: pd.DataFrame):
    """|g - d|^2 = |g|^2 - 2 g.d + |d|^2, in units of |d|, with |g| = component / cosine."""
    norm = found.component / found.cosine
    np.testing.assert_allclose(found.relative_bias**2, norm**2 - 2 * found.component + 1, atol=1e-12)


def test_equal_seeds_equal_tables_and_worlds_do_not_depend_on_what_is_asked():
    sao = {"sao": by_name()["sao"]()}
    a, b = (table(sao, lags=[4], worlds=2, seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(a, b)
    more = table(sao, lags=[1, 4, 9], worlds=3, seed=5)
    same = more[(more.lag == 4) & (more.world < 2)].reset_index(drop=True)
    pd.testing.assert_frame_equal(a, same)
    assert not a.equals(table(sao, lags=[4], worlds=2, seed=6))
    assert not a.equals(table(sao, lags=[4], worlds=2, seed=5, drift=ascent))


def test_a_clip_against_pi_old_acts_once_the_batch_has_been_trained_on():
    grpo = {"grpo": by_name()["grpo"]()}
    taken_now, taken_before = (
        table(grpo, lags=[0, 8], worlds=3, into_batch=updates).set_index(["estimator", "lag"])
        for updates in (0, 8)
    )
    assert (taken_now.loc[("grpo", 8), "clipped"] == 0).all()
    assert (taken_before.loc[("grpo", 8), "clipped"] > 0).any()
    # Fresh data is fresh for the trainer too, and what never looks at pi_old does not change.
    assert (taken_before.loc[("grpo", 0), "clipped"] == 0).all()
    same = [t.loc[("token-ratio", 8), "component"].to_numpy() for t in (taken_now, taken_before)]
    np.testing.assert_array_equal(*same)


def test_a_sweep_has_the_compositions_in_it_and_narrower_bands_mask_more():
    swept = sweep(lags=[4], worlds=2, eps_low=[0.1, 0.2, 0.3], eps_high=[0.28, 5.0])
    assert len(swept) == 2 * 2 * 3 * 2
    own = table({name: by_name()[name]() for name in ("sao", "grpo_behaviour_clip")}, lags=[4], worlds=2)
    for trust, low, high, name in (
        ("double-sided-mask", 0.3, 5.0, "sao"),
        ("ppo-clip", 0.2, 0.28, "grpo_behaviour_clip"),
    ):
        cell = swept[(swept.trust == trust) & (swept.eps_low == low) & (swept.eps_high == high)]
        for column in ("relative_bias", "component", "std_per_rollout", "flat"):
            np.testing.assert_allclose(cell[column], own.loc[own.estimator == name, column], rtol=1e-10)
    for _, cells in swept.groupby(["world", "trust", "eps_high"]):
        assert cells.sort_values("eps_low").flat.is_monotonic_decreasing


def test_every_composition_of_the_catalogue_has_a_row():
    every = table({name: make() for name, make in by_name().items()}, lags=[3], worlds=1)
    assert np.isfinite(every.drop(columns=["drift", "estimator"])).all(axis=None)


def test_a_world_done_is_said():
    said: list[int] = []
    sweep(lags=[0], worlds=2, eps_low=[0.2], eps_high=[0.2], advance=lambda: said.append(1))
    assert len(said) == 2


@pytest.mark.parametrize(("lags", "worlds"), [([], 2), ([-1], 2), ([1], 0)])
def test_no_lag_a_negative_one_or_no_world_is_refused(lags: list[int], worlds: int):
    with pytest.raises(ValueError, match="needs lags of at least 0 and a world"):
        table({}, lags=lags, worlds=worlds)
