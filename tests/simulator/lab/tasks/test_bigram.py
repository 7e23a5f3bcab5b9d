"""The bigram world: expected reward and gradient by other means, and estimators held against them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from algorithms.advantage import leave_one_out
from algorithms.aggregate import constant
from algorithms.estimator import Estimator
from algorithms.ratio import per_sequence_product, per_token
from algorithms.trust import importance_weighted, score
from algorithms.weighting import truncated_weight
from simulator.exact.world import World
from simulator.lab.models.logits import LogitPolicy, softmax
from simulator.lab.tasks.bigram import Bigram, by_previous, distinct, exact_gradient, mean_entropy
from simulator.lab.traffic import Part
from tests.simulator.lab.tabular import gradient, traffic

T64 = torch.float64


def logits_of(seed: int, vocabulary: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(vocabulary, vocabulary)))


def test_rewards_by_hand():
    responses = torch.tensor([[2, 2, 2, 2, 2, 2], [0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 4, 0]])
    assert distinct(responses, 5).tolist() == pytest.approx([0, 1 / 4, 1])
    assert distinct(torch.tensor([[0, 1, 2], [0, 0, 1]]), 5).tolist() == pytest.approx([1, 1 / 2])


def test_the_expected_reward_is_the_sum_over_prompts_and_responses():
    world = Bigram(vocabulary=3, length=4, seed=0)
    chain = logits_of(0).softmax(-1)
    expected = 0.0
    for start, *response in itertools.product(range(3), repeat=5):
        probability, last = 1 / 3, start
        for token in response:
            probability, last = probability * chain[last, token].item(), token
        expected += probability * (len(set(response)) - 1) / 2
    assert world.expected_reward(softmax(logits_of(0))).item() == pytest.approx(expected, rel=1e-12)


def test_the_gradient_is_that_of_a_policy_with_a_row_for_every_prefix():
    """Two tokens: tie the rows of the general world, and its gradient, summed over tied rows, is ours."""
    world, logits = Bigram(vocabulary=3, length=2, seed=0), logits_of(1)
    rewards = distinct(torch.cartesian_prod(torch.arange(3), torch.arange(3)), 3).double()
    expected = torch.zeros(3, 3, dtype=T64)
    for start in range(3):
        rows = torch.tensor([start, 0, 1, 2])
        got = World(logits=logits[rows], rewards=rewards).gradient()
        expected.index_add_(0, rows, got / 3)
    torch.testing.assert_close(exact_gradient(world, logits), expected, rtol=1e-12, atol=1e-15)


def test_going_round_all_tokens_is_best_and_a_fair_chain_is_what_chance_gives():
    world = Bigram(seed=0)
    round_all = LogitPolicy(40.0 * torch.eye(5).roll(1, 1), says=softmax, contexts=by_previous)
    assert world.measure(round_all, 0)["accuracy"] == pytest.approx(1, abs=1e-6)
    assert world.measure(round_all, 0)["entropy"] == pytest.approx(0, abs=1e-6)
    fair = LogitPolicy(torch.zeros(5, 5), says=softmax, contexts=by_previous)
    # Five tokens, each missing from six draws with probability (4/5)^6.
    assert world.measure(fair, 0)["accuracy"] == pytest.approx((5 * (1 - 0.8**6) - 1) / 4, rel=1e-6)
    assert world.measure(fair, 0)["entropy"] == pytest.approx(math.log(5), rel=1e-6)


def test_entropy_is_the_mean_surprise_of_what_is_said():
    table = logits_of(2).log_softmax(-1)
    total = 0.0
    for start, *response in itertools.product(range(3), repeat=4):
        said = table[torch.tensor([start, *response[:-1]]), torch.tensor(response)].sum()
        total -= (said.exp() * said / 3 / 3).item()
    assert mean_entropy(table, 3).item() == pytest.approx(total, rel=1e-12)


def test_equal_seeds_start_alike_and_what_cannot_be_listed_is_refused():
    world = Bigram(seed=4)
    assert torch.equal(world.policy().logits, world.policy().logits)
    assert not torch.equal(world.policy().logits, Bigram(seed=5).policy().logits)
    with pytest.raises(ValueError, match="10 tokens at length 6 make 1000000 responses"):
        Bigram(vocabulary=10, seed=0)
    with pytest.raises(ValueError, match="two tokens or more, got 1 at length 6"):
        Bigram(vocabulary=1, seed=0)


BATCHES, ROLLOUTS = 100, 512


def made(trust, log_ratio) -> Estimator:
    return Estimator(advantage=leave_one_out, log_ratio=log_ratio, trust=trust, aggregate=constant(1))


def mean_gradient(trust, log_ratio, behaviour: LogitPolicy, policy: LogitPolicy, world: Bigram):
    """Mean over batches that `behaviour` sampled, and the standard error of every component."""
    estimator = made(trust, log_ratio)
    sampler = world.sampler()
    sampler.publish(0, behaviour.snapshot())
    each = torch.stack(
        [
            gradient(estimator, policy, sampler.sample(traffic(ROLLOUTS * n, ROLLOUTS, group_size=8)))
            for n in range(BATCHES)
        ]
    ).double()
    return each.mean(0), each.std(0) / BATCHES**0.5


def test_estimators_gradients_meet_the_exact_one_fresh_and_late():
    """25 components each: four standard errors are exceeded once in 600 times."""
    world = Bigram(seed=1)
    policy, late = world.policy(), world.policy()
    with torch.no_grad():
        late.logits.add_(0.4 * torch.randn(5, 5, generator=torch.Generator().manual_seed(0)))
    true = exact_gradient(world, policy.logits)

    def furthest(trust, log_ratio, behaviour: LogitPolicy) -> float:
        mean, error = mean_gradient(trust, log_ratio, behaviour, policy, world)
        return float(((mean - true).abs() / error).max())

    assert furthest(score, per_token, policy) < 4
    assert furthest(truncated_weight(), per_sequence_product, late) < 4
    # And there is power to tell: without a ratio, and with a ratio that leaves the prefix stale.
    assert furthest(score, per_token, late) > 20
    assert furthest(importance_weighted, per_token, late) > 8


def test_fresh_data_learns_to_go_round():
    world = Bigram(seed=0)
    policy, sampler = world.policy(), world.sampler()
    estimator = made(score, per_token)
    optimizer = torch.optim.SGD(policy.parameters(), lr=10.0)
    assert world.measure(policy, 0)["accuracy"] < 0.7
    for update in range(60):
        sampler.publish(update, policy.snapshot())
        lesson = sampler.sample(traffic(128 * update, 128, (Part(update, 0),), group_size=8))
        policy.logits.grad = -gradient(estimator, policy, lesson)
        optimizer.step()
    assert world.measure(policy, 60)["accuracy"] > 0.95
