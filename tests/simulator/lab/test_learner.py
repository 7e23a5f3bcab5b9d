import dataclasses
import math

import numpy as np
import pytest
import torch

from algorithms.critic import CriticRecipe
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.sao import sao
from simulator.lab.parts import Lesson
from tests.simulator.lab.worlds import learner, sampled_by, table


@pytest.mark.parametrize("estimator", [grpo, grpo_behaviour_clip, grpo_dis, sao])
def test_on_policy_nothing_is_masked_and_every_weight_is_one(estimator) -> None:  # type: ignore[no-untyped-def]
    """Case A53: what sampler and trainer compute apart is numerics, and must stay below 1e-5."""
    student = learner(estimator())
    lesson = sampled_by(student, group_size=1 if estimator is sao else 8)
    seen = student.update(lesson)
    assert seen["masked_fraction"] == seen["clipped_fraction"] == 0.0
    assert seen["ess_token"] == pytest.approx(1.0, abs=1e-5)
    assert abs(seen["k1"]) < 1e-5


def test_first_gradient_equals_the_policy_gradient_written_out_in_numpy() -> None:
    """On-policy GRPO: (softmax - onehot) A / (rollouts x tokens), back through one hidden layer."""
    student = learner(grpo_behaviour_clip())
    lesson = sampled_by(student)
    first, bias, second, second_bias = (w.detach().double().numpy() for w in student.policy.parameters())
    batch = lesson.batch
    a, b, y = (t.numpy() for t in (*lesson.prompts.chunk(2, dim=1), batch.token_ids))
    hidden = np.maximum(first[a] + first[10 + b] + bias, 0)
    logits = hidden @ second + second_bias
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    reward = batch.returns.double().numpy().reshape(-1, 8)
    spread = reward.std(1, ddof=1, keepdims=True)
    advantage = ((reward - reward.mean(1, keepdims=True)) / (spread + 1e-6)).ravel()
    error = (probs - np.eye(10)[y]) * advantage[:, None, None] / y.size
    expected = np.einsum("bth,btv->hv", hidden, error)
    student.update(lesson)
    assert student.policy.second.grad is not None
    np.testing.assert_allclose(student.policy.second.grad.numpy(), expected, atol=1e-6)


def test_the_critic_is_fitted_exactly_k_times_and_every_weight_moves() -> None:
    """Cases A40, A45."""
    for k in (1, 2, 4):
        recipe = CriticRecipe(updates_per_policy_update=k, critic_only_updates=0)
        student = learner(sao(critic=recipe))
        assert student.critic is not None
        steps = 0

        def count(*_: object) -> None:
            nonlocal steps
            steps += 1

        student.critic.optimizer.register_step_post_hook(count)
        weights = [*student.policy.parameters(), *(p for _, p in student.critic.network.named_parameters())]
        start = [p.detach().clone() for p in weights]
        for _ in range(3):
            lesson = sampled_by(student, group_size=1)
            student.update(lesson)
        assert steps == 3 * k
        assert all(not torch.equal(a, b) for a, b in zip(start, weights, strict=True))


def test_while_only_the_critic_trains_the_policy_rests_bit_for_bit() -> None:
    student = learner(sao(critic=CriticRecipe(critic_only_updates=2)))
    start = table(student)
    for update in range(3):
        lesson = sampled_by(student, group_size=1)
        student.update(lesson)
        assert torch.equal(table(student), start) == (update < 2)


def test_values_from_before_and_from_after_the_fit_differ_and_the_recipe_decides() -> None:
    """Case A55: fitted to the same rollouts first, the critic takes part of the advantage away."""
    values = {}
    for when in ("before", "after"):
        recipe = CriticRecipe(value_when=when, critic_only_updates=0)
        student = learner(sao(critic=recipe))
        assert student.critic is not None
        lesson = sampled_by(student, group_size=1)
        values[when] = student.critic.fit(lesson).lesson.batch.values
    assert (values["before"] == 0).all()  # the head starts at zero
    assert (values["after"] != 0).all()


def test_a_gradient_that_is_not_finite_is_refused_and_counted() -> None:
    student = learner(grpo())
    lesson = sampled_by(student)
    broken = dataclasses.replace(lesson.batch, rewards=lesson.batch.rewards.clone())
    broken.rewards[0, -1] = torch.inf
    start = table(student)
    assert student.update(Lesson(prompts=lesson.prompts, batch=broken))["refused"] == 1.0
    assert torch.equal(table(student), start)
    assert student.update(lesson)["refused"] == 0.0


def test_a_gradients_cosine_with_the_previous_one() -> None:
    """The same rollouts twice, at a rate that moves nothing: the same gradient twice."""
    student = learner(grpo(), rate=0.0)
    lesson = sampled_by(student)
    assert math.isnan(student.update(lesson)["gradient_cosine"])
    assert student.update(lesson)["gradient_cosine"] == pytest.approx(1.0, abs=1e-6)


def test_what_a_state_brings_back_goes_on_bit_for_bit() -> None:
    first = learner(sao(critic=CriticRecipe(critic_only_updates=1)))
    for _ in range(2):
        first.update(sampled_by(first, group_size=1))
    second = learner(sao(critic=CriticRecipe(critic_only_updates=1)))
    second.load_state(first.state())
    for student in (first, second):
        student.update(sampled_by(student, group_size=1))
    assert torch.equal(table(first), table(second))
    lesson = sampled_by(first, group_size=1)
    assert first.update(lesson) == second.update(lesson)
