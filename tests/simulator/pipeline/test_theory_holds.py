"""Does the simulation meet the closed forms? Where they are known to fail, does it fail them so?"""

import numpy as np
import pytest

from simulator import theory
from simulator.config import BoundedLag, DropByAge, PipelineConfig, Sync, Unbounded
from simulator.pipeline.pipeline import run
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import DeepSeekR1, Exponential, Fixed, LogNormalOfLog
from tests.simulator.runs import lags, steady, trained

# Long lengths, so that whole tokens are as good as seconds: the mean is MEAN tokens of 1 / MEAN seconds.
MEAN = 100_000
LAWS = {
    "exponential": Exponential(mean_tokens=MEAN),
    "lognormal": LogNormalOfLog(mu=np.log(MEAN) - 0.5, sigma=1.0),
    "fixed": Fixed(tokens=MEAN),
}


def simulate(law, *, slots, batch, rho, updates, **more):
    """A pipeline of load rho: mean rollout 1 s, so that a batch takes batch / slots seconds to generate."""
    return run(
        PipelineConfig(
            slots=slots,
            engine=FixedSpeed(seconds_per_token=1 / MEAN),
            rollouts_per_update=batch,
            updates=updates,
            policy_update_s=rho * batch / slots,
            lengths=LAWS[law],
            seed=3,
            **more,
        )
    )


@pytest.mark.parametrize("n", [4, 16])
@pytest.mark.parametrize("law", ["exponential", "lognormal", "fixed"])
def test_synchronous_slots_are_busy_one_over_the_tail_ratio(law, n):
    # wave of n rollouts on n slots, no training time; 3,000 waves
    result = simulate(law, slots=n, batch=n, rho=0.0, updates=3000, staleness=Sync())
    ratio = {
        "exponential": theory.tail_ratio_exponential(n),
        "lognormal": theory.tail_ratio_lognormal(n, 1.0),
        "fixed": 1.0,
    }[law]
    rows = trained(result)
    busy = (rows.finished_s - rows.started_s).sum() / (n * result.end_s)
    # the longest of a wave varies by less than 1.3 of its mean: 3.6 standard errors of 3,000 waves
    assert busy == pytest.approx(theory.sync_utilisation(ratio), rel=1.3 * 3.6 / 3000**0.5)


@pytest.mark.parametrize("law", ["exponential", "lognormal"])
@pytest.mark.parametrize(("group_size", "rho"), [(1, 0.5), (1, 0.9), (8, 0.6)])
def test_mean_lag_when_rollouts_are_the_bottleneck(law, group_size, rho):
    result = simulate(law, slots=128, batch=64, rho=rho, updates=1200, group_size=group_size)
    ratio = {
        "exponential": theory.tail_ratio_exponential(group_size),
        "lognormal": theory.tail_ratio_lognormal(group_size, 1.0),
    }[law]
    assert theory.load(128, 1.0, 64, rho * 64 / 128) == pytest.approx(rho)
    predicted = theory.mean_lag(128, 64, rho, group_ratio=ratio)
    assert steady(lags(result)).mean() == pytest.approx(predicted, rel=0.03)


@pytest.mark.parametrize(("rho", "queue_batches", "slots"), [(1.3, 2, 64), (1.5, 1, 128)])
def test_mean_lag_when_training_is_the_bottleneck(rho, queue_batches, slots):
    result = simulate(
        "lognormal",
        slots=slots,
        batch=64,
        rho=rho,
        updates=1200,
        group_size=8,
        queue_capacity_rollouts=64 * queue_batches,
    )
    ratio = theory.tail_ratio_lognormal(8, 1.0)
    predicted = theory.mean_lag(slots, 64, rho, group_ratio=ratio, queue_batches=queue_batches)
    assert steady(lags(result)).mean() == pytest.approx(predicted, rel=0.03)


@pytest.mark.parametrize("rho", [0.5, 0.7])
def test_constant_lengths_break_the_closed_form(rho):
    # rollouts of one length finish in bursts of `slots`: the formula is known to be 11 to 18 % off
    result = simulate("fixed", slots=256, batch=64, rho=rho, updates=600)
    error = theory.mean_lag(256, 64, rho) / steady(lags(result)).mean() - 1
    assert 0.10 < abs(error) < 0.19


@pytest.mark.parametrize("law", ["exponential", "lognormal", "fixed"])
@pytest.mark.parametrize("group_size", [1, 8])
def test_mean_lag_is_the_number_in_the_system_at_publishes(law, group_size):
    # Little's law: no closed form, no assumption on lengths, and so also right where the closed form is not
    result = simulate(law, slots=128, batch=64, rho=0.7, updates=800, group_size=group_size)
    rows = result.log.rollouts.to_pandas()
    published_s = result.log.updates.column("published_s").to_numpy()
    started = np.searchsorted(np.sort(rows.started_s), published_s, side="left")
    taken = np.searchsorted(np.sort(rows.consumed_s.dropna()), published_s, side="left")
    by_little = theory.mean_lag_by_little(steady(started - taken).mean(), 64)
    assert steady(lags(result)).mean() == pytest.approx(by_little, rel=0.005)


def test_a_token_meets_long_rollouts():
    result = simulate("lognormal", slots=64, batch=64, rho=0.6, updates=1500)
    rows = trained(result)
    segments = result.log.segments.to_pandas().merge(
        rows[["rollout_id", "consumed_version"]], on="rollout_id"
    )
    swapped = np.average(segments.consumed_version - segments.version, weights=segments.tokens)
    kept = np.average(rows.consumed_version - rows.oldest_version, weights=rows.action_tokens)
    cv = np.sqrt(np.e - 1)
    # Var(L^2) = (e^4 - 1) E[L^2]^2: of 96,000 rollouts E[L^2] has a standard error of 2.4 %
    for lag, swaps_in_flight in ((swapped, True), (kept, False)):
        predicted = theory.token_weighted_lag(64, 64, 0.6, cv, swaps_in_flight=swaps_in_flight)
        assert lag == pytest.approx(predicted, rel=0.06)


@pytest.mark.parametrize("eta", [0, 1, 3])
def test_the_gate_fixes_the_mean_lag_and_bounds_no_rollout(eta):
    # enough slots that only the gate binds
    result = simulate(
        "lognormal", slots=256, batch=32, rho=4.0, updates=1200, staleness=BoundedLag(eta_batches=eta)
    )
    ages = steady(lags(result))
    assert ages.mean() == pytest.approx(eta, abs=0.02)
    if eta:
        assert ages.max() > 3 * eta


def test_a_full_pipeline_trains_at_its_limit():
    # B29: budget 8 (K + 1) started and not trained, rollout 1 s, train 4 s: lags 0, 1, .. K, then K for ever
    for eta in (0, 1, 3):
        result = run(
            PipelineConfig(
                slots=64,
                engine=FixedSpeed(seconds_per_token=1.0),
                rollouts_per_update=8,
                updates=12,
                policy_update_s=4.0,
                lengths=Fixed(tokens=1),
                staleness=BoundedLag(eta_batches=eta),
            )
        )
        by_update = lags(result).reshape(-1, 8)
        assert (by_update == np.minimum(np.arange(12), eta)[:, None]).all()


def test_an_age_limit_shortens_what_is_trained_and_a_full_queue_does_not():
    by_age = simulate(
        "lognormal", slots=128, batch=32, rho=0.5, updates=600, staleness=DropByAge(max_lag_updates=4)
    )
    by_number = simulate(
        "lognormal",
        slots=128,
        batch=32,
        rho=2.0,
        updates=600,
        staleness=Unbounded(),
        queue_capacity_rollouts=32,
    )
    assert lags(by_age).max() == 4
    assert trained(by_age).action_tokens.mean() < 0.7 * MEAN
    # 14,000 rollouts with a coefficient of variation of 1.3: two standard errors are 2.2 %
    assert steady(trained(by_number).action_tokens.to_numpy()).mean() == pytest.approx(MEAN, rel=0.03)
    assert by_number.ledger.dropped_by_reason["queue_full"][0] > 10_000


def test_the_group_barrier_makes_real_lengths_several_times_older():
    def mean(group_size):
        config = PipelineConfig(
            slots=256,
            rollouts_per_update=64,
            group_size=group_size,
            updates=600,
            engine=FixedSpeed(seconds_per_token=0.001),
            policy_update_s=0.7 * 1.5365 / 4,
            lengths=DeepSeekR1(),
        )
        return steady(lags(run(config))).mean()

    assert mean(1) == pytest.approx(4.7, rel=0.03)
    assert mean(8) == pytest.approx(4 * theory.tail_ratio(8, DeepSeekR1().quantile) + 0.7, rel=0.03)
