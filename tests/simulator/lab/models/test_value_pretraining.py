"""What a critic knows of the starting policy, by how much it saw of it."""

from __future__ import annotations

import dataclasses
import functools
from functools import partial

import torch

from algorithms.critic import CriticRecipe
from simulator.lab.models.value_pretraining import in_batches, pretrained, with_the_value_after
from simulator.lab.models.warm_start import WarmStart
from simulator.lab.tasks.played import Played
from tests.simulator.lab.models.small import SIZES, Sums

# Most rollouts of the small game are cut: a value after the cut would be added to all values, without end.
RECIPE = CriticRecipe(bootstrap_truncated=False)


@functools.cache
def played() -> Played:
    """Its reward counts a token that the prompt names: a model that knows nothing has some."""
    return Played(Sums(), seed=0, sizes=SIZES, warm_start=WarmStart(accuracy=0.1), cache=None)


def fitted(rollouts: int):
    task = played()
    policy = task.policy()
    make = partial(task.rollouts_of, policy.snapshot())
    return pretrained(task.critic(policy), in_batches(make, rollouts), RECIPE, learning_rate=5e-3)


def weights(critic) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in critic.parameters()])


def test_no_rollouts_change_nothing():
    task = played()
    assert torch.equal(weights(fitted(0)), weights(task.critic(task.policy())))


def test_the_same_rollouts_make_the_same_critic():
    assert torch.equal(weights(fitted(200)), weights(fitted(200)))


def test_frozen_parts_stay():
    task = played()
    before = dict(task.critic(task.policy()).named_parameters())
    after = dict(fitted(200).named_parameters())
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if ".attn." not in name}


def test_more_rollouts_leave_less_error():
    """Squared error of V(s_t) against the return, on rollouts that no fit saw; 0 knows no more than V = 0."""
    task = played()
    fresh = task.rollouts_of(task.policy().snapshot(), 50_000, 512)
    mask = fresh.batch.action_mask
    errors = []
    for rollouts in (0, 256, 8192):
        values = fitted(rollouts).values(fresh.prompts, fresh.batch.token_ids).detach()
        errors.append(((values - fresh.batch.returns[:, None]).square() * mask).sum() / mask.sum())
    constant = (fresh.batch.returns[:, None] - fresh.batch.returns.mean()).square()
    assert errors[2] < errors[1]
    # The last knows more than the mean reward.
    assert errors[2] < 0.95 * (constant * mask).sum() / mask.sum()


def test_the_value_after_the_last_token_has_seen_it():
    task = played()
    critic = fitted(256)
    lesson = task.rollouts_of(task.policy().snapshot(), 0, 64)
    values, after = with_the_value_after(critic, lesson)
    here = lesson.batch.action_mask
    torch.testing.assert_close(values[here], critic.values(lesson.prompts, lesson.batch.token_ids)[here])
    # Another last token, another value after it.
    tokens = lesson.batch.token_ids.clone()
    tokens[:, -1] = (tokens[:, -1] + 1) % 8
    changed = dataclasses.replace(lesson, batch=dataclasses.replace(lesson.batch, token_ids=tokens))
    moved = (with_the_value_after(critic, changed)[1] - after)[lesson.batch.truncated]
    assert len(moved) > 10
    assert moved.abs().min() > 0


def test_batches_cover_the_rollouts_once():
    counts = []
    assert list(in_batches(lambda first, count: counts.append((first, count)), 300)) == [None] * 3
    assert counts == [(0, 128), (128, 128), (256, 44)]
    assert list(in_batches(lambda *_: None, 0)) == []
