"""SPO's tracker by hand and against a plain recursion; its advantage."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.advantage import running_mean
from algorithms.spo import Tally, ValueTracker, over_rollouts, policy_drift, spo
from tests.algorithms.make import T64, bandit, batch, rows, terminal
from tests.laws.compositions import random_batch


def visits(prompts: list[int], rewards: list[float]):
    return bandit(rewards, list(range(len(rewards))), prompt_ids=torch.tensor(prompts))


def drift(*nats: float) -> torch.Tensor:
    return torch.tensor(nats, dtype=T64)


def test_by_hand():
    tracker = ValueTracker()
    assert tracker.baselines(torch.tensor([7])).tolist() == [0.5]
    # First visit: nothing moved, .96 of (1/2, 1) is kept; then a success.
    tracker = tracker.extended(visits([7], [1.0]), drift(0.0))
    assert tracker.tallies[7] == Tally(1.48, 1.96)
    assert tracker.baselines(torch.tensor([7, 8])).tolist() == [1.48 / 1.96, 0.5]
    # 0.006 nats are a tenth of the half-life: 2^-0.1 = .933 is kept; then a failure.
    tracker = tracker.extended(visits([7], [0.0]), drift(0.006))
    kept = 2**-0.1
    assert tracker.tallies[7] == pytest.approx((kept * 1.48, kept * 1.96 + 1))
    # A whole half-life would keep a half, but no less than .875 is kept.
    assert tracker.kept(0.06) == 0.875
    assert ValueTracker(fastest=0.0).kept(0.06) == 0.5


def test_a_prompt_that_comes_twice_forgets_once_in_any_order():
    a = ValueTracker().extended(visits([0, 1, 0], [1.0, 1.0, 0.0]), drift(0.0, 0.02, 0.012))
    b = ValueTracker().extended(visits([0, 0, 1], [0.0, 1.0, 1.0]), drift(0.012, 0.0, 0.02))
    assert a.tallies == b.tallies
    kept = 2**-0.1
    assert a.tallies[0] == pytest.approx((kept * 0.5 + 1, kept * 1.0 + 2))


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(0, 0.1)), max_size=30))
def test_is_the_published_alpha_and_beta(history):
    tracker, alpha, beta = ValueTracker(), 0.5, 0.5
    for reward, nats in history:
        tracker = tracker.extended(visits([0], [reward]), drift(nats))
        rho = min(max(2 ** (-nats / 0.06), 0.875), 0.96)
        alpha, beta = rho * alpha + reward, rho * beta + 1 - reward
    assert tracker.baselines(torch.tensor([0])).item() == pytest.approx(alpha / (alpha + beta))


def test_memory_is_between_eight_and_twenty_five_rewards():
    for nats, remembered in ((10.0, 8.0), (0.0, 25.0)):
        tracker = ValueTracker()
        for _ in range(400):
            tracker = tracker.extended(visits([0], [1.0]), drift(nats))
        assert tracker.tallies[0].weight == pytest.approx(remembered, rel=1e-4)


def test_offline_rewards_start_a_prompt_at_the_weight_of_eight():
    # (3 + 1/2) / (4 + 1) of 8.
    tracker = ValueTracker().estimated({5: [1.0, 1.0, 0.0, 1.0]})
    assert tracker.tallies[5] == pytest.approx((5.6, 8.0))


def test_extending_leaves_the_old_tracker_as_it_was():
    before = ValueTracker()
    before.extended(visits([0], [1.0]), drift(0.0))
    assert before.tallies == {}


def test_drift_is_the_mean_distance_over_action_tokens():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    then, now = rows([-1.0, math.nan, -2.0], [math.nan] * 3), rows([-1.5, 0.0, -1.0], [0.0] * 3)
    assert policy_drift(then, now, mask).tolist() == [0.75, 0.0]


def test_advantages_are_whitened_over_rollouts_however_long():
    action = rows([1], [1, 0, 1], [1, 1], dtype=torch.long).bool()
    b = batch(action, rewards=terminal(action, [1.0, 0.0, 0.0]), baselines=torch.full((3,), 0.5, dtype=T64))
    # r - v = 1/2, -1/2, -1/2: mean -1/6, deviation (n - 1) 1 / sqrt 3.
    high, low = 2 / 3 * 3**0.5, -1 / 3 * 3**0.5
    torch.testing.assert_close(
        spo().advantage(b), rows([high, 0.0, 0.0], [low, 0.0, low], [low, low, 0.0]), rtol=0, atol=1e-7
    )


def test_a_single_rollout_keeps_its_advantage():
    b = bandit([1.0], [0], baselines=drift(0.25))
    assert over_rollouts(running_mean)(b).tolist() == [[0.75]]


def test_the_unit_of_reward_does_not_matter():
    b = random_batch(3)
    scaled = type(b)(
        **{name: getattr(b, name) for name in b.__slots__}
        | {"rewards": 10 * b.rewards, "baselines": 10 * b.baselines}
    )
    torch.testing.assert_close(spo().advantage(scaled), spo().advantage(b), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"half_life_nats": 0.0}, "half_life_nats must be positive"),
        ({"fastest": 0.99}, "fastest 0.99 and slowest 0.96"),
        ({"unseen": Tally(0.0, 0.0)}, "unseen needs a positive weight"),
    ],
)
def test_a_constant_out_of_range_is_refused(constants, said: str):
    with pytest.raises(ValueError, match=said):
        ValueTracker(**constants)


@pytest.mark.parametrize("nats", [-0.1, math.nan])
def test_a_drift_that_is_none_is_refused(nats: float):
    with pytest.raises(ValueError, match="drift_nats"):
        ValueTracker().extended(visits([0], [1.0]), drift(nats))


def test_a_rollout_without_an_action_is_no_visit():
    idle = dataclasses.replace(visits([7, 8], [1.0, 1.0]), action_mask=torch.tensor([[True], [False]]))
    assert set(ValueTracker().extended(idle, drift(0.0, 0.0)).tallies) == {7}
