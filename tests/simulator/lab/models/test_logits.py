"""Tables of logits: what was said is what was scored, and no token sees itself."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from algorithms.critic import CriticRecipe
from simulator.lab.learner import Learner, adam
from simulator.lab.methods import METHODS
from simulator.lab.models.logits import bernoulli, softmax
from simulator.lab.models.tables import TableSpeaker
from simulator.lab.tasks.band_bits import OPTIMIZER, BandBits
from simulator.lab.tasks.bigram import Bigram
from simulator.lab.traffic import Part
from tests.simulator.lab.tabular import traffic

WORLDS = [BandBits(bits=12, seed=3), Bigram(seed=3)]
HALVES = (Part(0, 0), Part(4, 30))
"""Half of sixty simulated tokens by version 0, half by version 4."""


def moved(policy, scale: float = 1.0):
    """The same kind of policy somewhere else."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        policy.logits.add_(scale * torch.randn(policy.logits.shape, generator=generator))
    return policy


def published(world):
    """A sampler with two versions, and both as they were."""
    policy, sampler = world.policy(), world.sampler()
    speakers = {0: policy.snapshot()}
    speakers[4] = moved(policy).snapshot()
    for version, speaker in speakers.items():
        sampler.publish(version, speaker)
    return sampler, speakers


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_sampled_log_probs_are_those_of_the_version_that_sampled(world):
    sampler, speakers = published(world)
    lesson = sampler.sample(traffic(0, 50, HALVES))
    batch = lesson.batch
    width = batch.token_ids.shape[1]
    assert batch.policy_versions[0].tolist() == [0] * (width // 2) + [4] * (width // 2)
    for version, speaker in speakers.items():
        recomputed = speaker.log_probs(lesson.prompts, batch.token_ids)
        here = batch.policy_versions == version
        torch.testing.assert_close(batch.behaviour_log_probs[here], recomputed[here], rtol=0, atol=0)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_what_is_said_is_what_would_be_said_token_by_token(world):
    """One after the other, with the same uniforms and the context that really came before."""
    sampler, speakers = published(world)
    lesson = sampler.sample(traffic(0, 20, HALVES))
    batch = lesson.batch
    uniforms = world.uniforms(np.arange(20))
    for row in range(20):
        said = torch.zeros_like(batch.token_ids[:1])
        for t, u in enumerate(uniforms[row].tolist()):
            speaker = speakers[int(batch.policy_versions[row, t])]
            context = speaker.contexts(lesson.prompts[row : row + 1], said)[0, t]
            cumulative = speaker.table[context].exp().cumsum(0)
            said[0, t] = min(int((cumulative <= u).sum()), len(cumulative) - 1)
        assert said[0].tolist() == batch.token_ids[row].tolist()


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_a_rollout_says_the_same_in_any_company(world):
    sampler, _ = published(world)
    many = sampler.sample(traffic(0, 30, HALVES)).batch
    few = sampler.sample(traffic(17, 3, HALVES)).batch
    torch.testing.assert_close(few.token_ids, many.token_ids[17:20], rtol=0, atol=0)
    torch.testing.assert_close(few.rewards, many.rewards[17:20], rtol=0, atol=0)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_no_token_is_seen_before_it_is_chosen(world):
    policy = moved(world.policy())
    critic = world.critic(policy)
    lesson = published(world)[0].sample(traffic(0, 8))
    tokens = lesson.batch.token_ids
    with torch.no_grad():
        critic.cells.copy_(torch.arange(len(critic.cells)))
        values = critic.values(lesson.prompts, tokens)
        for t in range(tokens.shape[1]):
            other = tokens.clone()
            other[:, t:] = 1 - other[:, t:].clamp(max=1)
            assert torch.equal(critic.values(lesson.prompts, other)[:, : t + 1], values[:, : t + 1])
            assert torch.equal(
                policy.contexts(lesson.prompts, other)[:, : t + 1],
                policy.contexts(lesson.prompts, tokens)[:, : t + 1],
            )


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_a_snapshot_stays_and_a_policy_learns(world):
    policy = world.policy()
    lesson = published(world)[0].sample(traffic(0, 8))
    args = (lesson.prompts, lesson.batch.token_ids)
    before = policy.snapshot()
    kept = before.log_probs(*args)
    moved(policy)
    assert torch.equal(before.log_probs(*args), kept)
    assert not torch.equal(policy.log_probs(*args), kept)
    assert torch.equal(policy.snapshot().log_probs(*args), policy.log_probs(*args))
    assert isinstance(before, TableSpeaker)
    assert not before.log_probs(*args).requires_grad


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: type(world).__name__)
def test_a_sampler_comes_back_from_its_state(world):
    sampler, _ = published(world)
    other = world.sampler()
    other.load_state(sampler.state())
    ours, theirs = (each.sample(traffic(0, 9, HALVES)).batch for each in (sampler, other))
    assert torch.equal(ours.token_ids, theirs.token_ids)
    assert torch.equal(ours.behaviour_log_probs, theirs.behaviour_log_probs)


def test_a_critic_of_cells_learns_the_mean_of_what_follows():
    """Fair bits, reward 1 iff all three are ones: the value after k ones is 2^-(3 - k), after a zero 0."""
    world = BandBits(bits=3, low=1.0, high=1.0, seed=0)
    sampler, policy = world.sampler(), world.policy()
    sampler.publish(0, policy.snapshot())
    lesson = sampler.sample(traffic(0, 4000))
    critic = world.critic(policy)
    nothing = torch.zeros_like(lesson.batch.rewards)
    targets = CriticRecipe().targets(dataclasses.replace(lesson.batch, values=nothing))
    optimizer = torch.optim.SGD(critic.parameters(), lr=1.0)
    for _ in range(200):
        loss = (critic.values(lesson.prompts, lesson.batch.token_ids) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tokens = torch.tensor([[1, 1, 1], [1, 0, 1]])
    got = critic.values(torch.zeros(2, 0, dtype=torch.long), tokens)
    # Four standard errors of a share of 1,000 are .06 at most.
    assert got[0].tolist() == pytest.approx([1 / 8, 1 / 4, 1 / 2], abs=0.06)
    assert got[1, 2].item() == 0


def test_two_ways_to_write_a_coin():
    z = torch.tensor([-50.0, -1.0, 0.0, 2.0, 200.0])
    table = bernoulli(z)
    torch.testing.assert_close(table, softmax(torch.stack([torch.zeros(5), z], -1)))
    assert table[2].tolist() == pytest.approx([-math.log(2)] * 2)
    assert torch.isfinite(table).all()


@pytest.mark.parametrize(("method", "group_size"), [("grpo", 8), ("sao", 1)])
@pytest.mark.parametrize(
    ("world", "optimizer", "rate"),
    [(BandBits(bits=16, seed=1), OPTIMIZER, 4.0), (Bigram(seed=1), adam, 0.05)],
    ids=["band", "bigram"],
)
def test_a_learner_with_and_without_a_critic_gains_on_them(world, optimizer, rate, method, group_size):
    policy, sampler = world.policy(), world.sampler()
    learner = Learner(METHODS[method](), policy, world.critic, learning_rate=rate, optimizer=optimizer)
    before = world.measure(policy, 0)["accuracy"]
    for update in range(60):
        sampler.publish(update, policy.snapshot())
        lesson = sampler.sample(traffic(64 * update, 64, (Part(update, 0),), group_size=group_size))
        metrics = learner.update(lesson)
        assert metrics["refused"] == 0
    assert world.measure(policy, 60)["accuracy"] > before + 0.05
