"""What a critic knows of the starting policy, by how much it saw of it."""

from __future__ import annotations

import dataclasses
import functools
from contextlib import nullcontext

import pytest
import torch

from algorithms.critic import CriticRecipe
from simulator.lab.critic import CriticLearner, valued
from simulator.lab.learner import adam
from simulator.lab.models.warm_start import WarmStart
from simulator.lab.parts import Lesson
from simulator.lab.pretraining import once_each, pretrain
from simulator.lab.tasks.played import Played
from simulator.lab.traffic import Traffic
from tests.algorithms.make import batch
from tests.simulator.lab.models.small import SIZES, Sums

# A third of the small game's rollouts are cut: a value after the cut would be added to all values.
RECIPE = CriticRecipe(bootstrap_truncated=False)


@functools.cache
def played() -> Played:
    """Its reward counts a token that the prompt names: a model that knows nothing has some."""
    return Played(Sums(), seed=0, sizes=SIZES, warm_start=WarmStart(accuracy=0.1), cache=None)


def sampler():  # type: ignore[no-untyped-def]
    engines = played().sampler()
    engines.publish(0, played().policy().snapshot())
    return engines


def critic_after(rollouts: int) -> CriticLearner:
    task = played()
    learner = CriticLearner(task.critic(task.policy()), RECIPE, policy_learning_rate=1e-3, optimizer=adam)
    pretrain(learner, sampler(), rollouts=rollouts)
    return learner


def weights(learner: CriticLearner) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for _, p in learner.network.named_parameters()])


def test_no_rollouts_change_nothing() -> None:
    task = played()
    fresh = torch.cat([p.detach().flatten() for _, p in task.critic(task.policy()).named_parameters()])
    assert torch.equal(weights(critic_after(0)), fresh)


def test_the_same_rollouts_make_the_same_critic_and_leave_no_moments() -> None:
    first, second = critic_after(200), critic_after(200)
    assert torch.equal(weights(first), weights(second))
    assert first.optimizer.state_dict()["state"] == {}
    assert first.state()["fits"] == 0


def test_frozen_parts_stay() -> None:
    task = played()
    before = dict(task.critic(task.policy()).named_parameters())
    after = dict(critic_after(200).network.named_parameters())
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if ".attn." not in name}


def test_more_rollouts_leave_less_error() -> None:
    """Squared error of V(s_t) against the return, on rollouts that no fit saw; 0 knows no more than V = 0."""
    fresh = sampler().sample(once_each(50_000, 512))
    mask = fresh.batch.action_mask
    errors = []
    for rollouts in (0, 256, 8192):
        values = critic_after(rollouts).network.values(fresh.prompts, fresh.batch.token_ids).detach()
        errors.append(((values - fresh.batch.returns[:, None]).square() * mask).sum() / mask.sum())
    constant = (fresh.batch.returns[:, None] - fresh.batch.returns.mean()).square()
    assert errors[2] < errors[1]
    # The last knows more than the mean reward.
    assert errors[2] < 0.95 * (constant * mask).sum() / mask.sum()


def test_the_value_after_the_last_token_has_seen_it() -> None:
    """The bootstrap of a cut rollout: another last token, another value after it; values before it stay."""
    learner, lesson = critic_after(256), sampler().sample(once_each(0, 64))
    tokens, cut = lesson.batch.token_ids, lesson.batch.truncated
    longer = torch.nn.functional.pad(tokens, (0, 1))
    batch = valued(lesson.batch, learner.network.values(lesson.prompts, longer))
    assert batch.values is not None
    assert batch.bootstrap_values is not None
    alone = learner.network.values(lesson.prompts, tokens)
    here = batch.action_mask
    torch.testing.assert_close(batch.values[here], alone[here])
    changed = longer.clone()
    changed[:, -2] = (changed[:, -2] + 1) % 8
    other = valued(lesson.batch, learner.network.values(lesson.prompts, changed))
    assert other.bootstrap_values is not None
    moved = (other.bootstrap_values - batch.bootstrap_values)[cut]
    assert len(moved) > 10
    assert moved.abs().min() > 0


@pytest.mark.parametrize("cut", [0.0, 0.25, 0.75, 1.0])
def test_an_error_everywhere_comes_back_by_the_share_that_was_cut(cut: float) -> None:
    """Exactly, at gamma = lambda = 1; without bootstrapping, never: then returns are an anchor."""
    rows = torch.arange(8) < 8 * cut
    values = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mask = torch.rand(8, 5, generator=torch.Generator().manual_seed(1)) < 0.7
    mask[:, 0] = True

    def mean_target(recipe: CriticRecipe, error: float) -> float:
        given = batch(mask, values=values + error, truncated=rows, bootstrap_values=values[:, -1] + error)
        first = recipe.targets(given)[:, 0]
        return first.mean().item()

    for bootstraps, share in ((True, cut), (False, 0.0)):
        recipe = CriticRecipe(bootstrap_truncated=bootstraps)
        moved = mean_target(recipe, 3.0) - mean_target(recipe, 0.0)
        assert moved == pytest.approx(3.0 * share, abs=1e-12)
    discounted = CriticRecipe(gamma=0.5)
    assert mean_target(discounted, 3.0) - mean_target(discounted, 0.0) <= 3.0 * 0.5 * cut + 1e-12


@pytest.mark.parametrize("bootstrap", [True, False])
def test_many_cut_rollouts_are_warned_of_where_value_follows_them(bootstrap: bool) -> None:
    task = played()
    learner = CriticLearner(
        task.critic(task.policy()), CriticRecipe(), policy_learning_rate=1e-3, optimizer=adam
    )

    class AllCut:
        def sample(self, traffic: Traffic) -> Lesson:
            lesson = sampler().sample(traffic)
            cut = torch.ones_like(lesson.batch.truncated)
            return dataclasses.replace(lesson, batch=dataclasses.replace(lesson.batch, truncated=cut))

    said = pytest.warns(UserWarning, match="256 of 256 rollouts were cut") if bootstrap else nullcontext()
    with said:
        pretrain(learner, AllCut(), rollouts=256, bootstrap_truncated=bootstrap)  # type: ignore[arg-type]
    assert learner.recipe == CriticRecipe()
    if not bootstrap:  # who is cut makes no difference then
        assert torch.equal(weights(learner), weights(critic_after(256)))


def test_rollouts_are_seen_once_each() -> None:
    ids = [i for first, count in ((0, 128), (128, 44)) for i in once_each(first, count).rollout_ids.tolist()]
    assert len(set(ids)) == len(ids) == 172
