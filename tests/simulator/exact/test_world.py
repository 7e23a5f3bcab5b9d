"""The listed world against autograd, and its past."""

import itertools

import numpy as np
import pytest
import torch

from simulator.exact.world import DRIFTS, STEP_NATS, World, ascent, random_walk, random_world

T64 = torch.float64


def world(seed: int = 0) -> World:
    return random_world(np.random.default_rng(seed))


def test_responses_are_all_nine_and_each_token_comes_from_the_row_of_its_prefix():
    one = world()
    assert one.tokens.tolist() == [[a, b] for a in range(3) for b in range(3)]
    assert one.states.tolist() == [[0, 1 + a] for a in range(3) for _ in range(3)]
    assert float(one.probabilities().sum()) == pytest.approx(1, rel=1e-14)


def test_three_tokens_have_thirteen_prefixes():
    deep = World(logits=torch.randn(13, 3, dtype=T64), rewards=torch.rand(27, dtype=T64), length_tokens=3)
    assert deep.tokens[5].tolist() == [0, 1, 2]
    assert deep.states[5].tolist() == [0, 1, 1 + 3 + 1]
    assert float(deep.probabilities().sum()) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_scores_and_gradient_are_those_of_autograd(seed: int):
    one = world(seed)
    leaf = one.logits.clone().requires_grad_()
    moved = one.at(leaf)
    torch.testing.assert_close(
        one.gradient(), torch.autograd.grad(moved.mean_reward(), leaf)[0], rtol=1e-12, atol=1e-15
    )
    jacobian = torch.autograd.functional.jacobian(lambda z: one.at(z).log_probs(), one.logits)
    torch.testing.assert_close(one.scores(), jacobian, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("drift", DRIFTS.values())
def test_a_longer_past_keeps_the_shorter_one(drift):
    one = world()
    short, long = (drift(one, n, np.random.default_rng(7)) for n in (3, 9))
    assert short[0].logits.equal(one.logits)
    assert len(long) == 10
    for a, b in zip(short, long, strict=False):
        assert a.logits.equal(b.logits)


def test_a_random_walk_grows_with_the_root_of_its_steps():
    one = world()
    ends = torch.stack([random_walk(one, 16, np.random.default_rng(i))[16].logits for i in range(300)])
    # 3600 normals of standard deviation 4 steps: their own has a relative error of 1/sqrt(7200) = 1.2 %.
    assert float((ends - one.logits).std()) == pytest.approx(4 * STEP_NATS, rel=0.06)


def test_ascent_earned_less_in_the_past():
    past = ascent(world(), 12, np.random.default_rng(0))
    earned = [float(one.mean_reward()) for one in past]
    assert earned == sorted(earned, reverse=True)
    steps = [float((b.logits - a.logits).norm()) for a, b in itertools.pairwise(past)]
    assert steps == pytest.approx([STEP_NATS] * 12)


def test_a_table_of_another_size_is_refused():
    with pytest.raises(ValueError, match="3 tokens at length 2 make 4 prefixes and 9 responses"):
        World(logits=torch.zeros(3, 3, dtype=T64), rewards=torch.zeros(9, dtype=T64))
