"""A game as a task: what engines record, and what is measured."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
import torch

from simulator.lab.models.gpt import Sizes
from simulator.lab.models.warm_start import WarmStart
from simulator.lab.pretraining import FIRST_ID
from simulator.lab.tasks.carry_addition import STOP, CarryAddition
from simulator.lab.tasks.played import HELD_OUT, MEASURED, RANGE, WARM_START, Played
from simulator.lab.traffic import Part, Traffic

WARM = WarmStart(accuracy=0.15, most_steps=900, batch=64, learning_rate=5e-3)


@functools.cache
def played(seed: int = 0) -> Played:
    game = CarryAddition(seed=seed, most_digits=1)
    return Played(game, seed=seed, sizes=Sizes(width=32, expansion=2), warm_start=WARM, cache=None)


def traffic(rows: int, parts=((0, 0),), *, first: int = 0) -> Traffic:
    ids = first + np.arange(rows)
    return Traffic(
        version=3,
        index_in_batch=0,
        rollout_ids=ids,
        prompt_ids=ids // 2,
        group_ids=ids // 2 + 7,
        length_tokens=[30] * rows,
        parts=[[Part(*part) for part in parts]] * rows,
    )


def moved(task: Played, scale: float):
    policy = task.policy()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator)
    return policy


def test_the_starting_policy_is_the_warm_start_every_time():
    task = played()
    first, second = task.policy(), task.policy()
    assert torch.equal(first.snapshot().vector, second.snapshot().vector)
    with torch.no_grad():
        next(first.parameters()).add_(1.0)
    assert torch.equal(task.policy().snapshot().vector, second.snapshot().vector)
    assert task.measure(second, 0)["accuracy"] > 0.05


def test_a_lesson_is_what_the_schedule_dictates():
    task, rows = played(), 64
    sampler = task.sampler()
    old, new = task.policy(), moved(task, 0.05)
    sampler.publish(0, old.snapshot())
    sampler.publish(5, new.snapshot())
    lesson = sampler.sample(traffic(rows, ((0, 0), (5, 16))))
    batch = lesson.batch
    assert torch.equal(lesson.prompts, task.game.prompts(np.arange(rows) // 2))
    assert torch.equal(batch.prompt_ids, torch.arange(rows) // 2)
    assert torch.equal(batch.group_ids, torch.arange(rows) // 2 + 7)
    # A good answer has n tokens: token t of it stands for simulated token floor(30 t / n).
    said = task.game.said_tokens(lesson.prompts)
    place = torch.arange(batch.token_ids.shape[1])
    later = (30 * place // said[:, None] >= 16) | (place >= said[:, None])
    assert torch.equal(batch.policy_versions, torch.where(later, 5, 0))
    # Before a push, the old weights' own log-probs.
    before = batch.action_mask & ~later
    error = (old.log_probs(lesson.prompts, batch.token_ids) - batch.behaviour_log_probs)[before]
    assert error.abs().max() < 1e-5
    assert (batch.temperature == 1).all()


def test_the_reward_is_on_the_last_token_that_the_model_chose():
    task = played()
    sampler = task.sampler()
    sampler.publish(0, task.policy().snapshot())
    lesson = sampler.sample(traffic(256))
    batch = lesson.batch
    earned = task.game.rewards(lesson.prompts, batch.token_ids, batch.action_mask)
    assert 0 < earned.sum() < 256
    assert torch.equal(batch.returns, earned)
    rows = earned.nonzero()[:, 0]
    last = batch.action_mask.sum(1)[rows] - 1
    assert (batch.rewards[rows, last] == 1).all()
    assert (batch.token_ids[rows, last] == STOP).all()
    assert batch.rewards.sum() == earned.sum()
    stopped = ((batch.token_ids == STOP) & batch.action_mask).any(1)
    assert torch.equal(batch.truncated, ~stopped)


def test_the_same_rollout_says_the_same_in_any_batch():
    task = played()
    sampler = task.sampler()
    sampler.publish(0, task.policy().snapshot())
    many = sampler.sample(traffic(64)).batch
    few = sampler.sample(traffic(8, first=20)).batch
    width = few.token_ids.shape[1]
    assert torch.equal(few.action_mask, many.action_mask[20:28, :width])
    assert torch.equal(few.token_ids, many.token_ids[20:28, :width])
    torch.testing.assert_close(few.behaviour_log_probs, many.behaviour_log_probs[20:28, :width])
    assert (many.token_ids[0::2] != many.token_ids[1::2]).any(), "rollouts of one prompt differ"


def test_a_version_that_was_forgotten_or_never_published_is_refused():
    task = played()
    sampler = task.sampler()
    with pytest.raises(ValueError, match="no engine holds version 0"):
        sampler.sample(traffic(2))
    sampler.publish(0, task.policy().snapshot())
    sampler.publish(1, task.policy().snapshot())
    sampler.forget(1)
    with pytest.raises(ValueError, match="no engine holds version 0"):
        sampler.sample(traffic(2))


def test_a_sampler_goes_back_to_its_state():
    task = played()
    sampler, other = task.sampler(), task.sampler()
    sampler.publish(0, task.policy().snapshot())
    sampler.publish(4, moved(task, 0.05).snapshot())
    other.publish(9, task.policy().snapshot())
    other.load_state(sampler.state())
    schedule = traffic(32, ((0, 0), (4, 10)))
    wanted, found = sampler.sample(schedule).batch, other.sample(schedule).batch
    assert torch.equal(wanted.token_ids, found.token_ids)
    assert torch.equal(wanted.behaviour_log_probs, found.behaviour_log_probs)
    empty = task.sampler()
    empty.load_state(task.sampler().state())
    empty.publish(0, task.policy().snapshot())


def test_measurements_are_made_every_so_often_and_with_the_same_keys():
    task = played()
    policy = task.policy()
    at = {update: task.measure(policy, update) for update in (0, 1, 19, 20, 40)}
    assert {tuple(seen) for seen in at.values()} == {MEASURED}
    # No prompt of this game is long, so that accuracy is no number.
    assert math.isnan(at[0]["accuracy_long"])
    assert at[20] == pytest.approx(at[0], abs=0, nan_ok=True)
    assert at[40] == pytest.approx(at[0], abs=0, nan_ok=True)
    for update in (1, 19):
        assert all(math.isnan(number) for number in at[update].values())


def test_accuracy_is_the_mean_reward_of_held_out_prompts():
    """Of 256 sampled answers, within 5 standard errors of the exact probability of the right one."""
    task = played()
    policy = task.policy()
    measured = task.measure(policy, 0)
    prompts = task.game.prompts(HELD_OUT + np.arange(256))
    right = task.game.demonstration(prompts)
    exact = (policy.log_probs(prompts, right.tokens) * right.action_mask).sum(1).exp().detach()
    error = (exact * (1 - exact)).mean().sqrt() / 256**0.5
    assert abs(measured["accuracy"] - exact.mean()) < 5 * error
    assert 0 < measured["entropy"] < math.log(task.game.vocabulary)
    assert 1 <= measured["response_tokens"] <= task.game.response_tokens


def test_no_id_serves_two_purposes():
    starts = [0, HELD_OUT, WARM_START, FIRST_ID]
    assert [b - a for a, b in itertools.pairwise(starts)] == [RANGE] * 3
    # Games that number their prompts have 2^32 of them.
    assert FIRST_ID + RANGE <= 2**32


def test_the_critic_starts_from_the_policy():
    task = played()
    policy = task.policy()
    assert torch.equal(task.critic(policy).tokens, policy.tokens)
    assert task.relative_length(3) == task.game.relative_length(3)
