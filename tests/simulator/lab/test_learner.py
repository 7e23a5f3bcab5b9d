import dataclasses

import numpy as np
import pytest
import torch

from algorithms.critic import CriticRecipe
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.sao import sao
from tests.simulator.lab.worlds import learner, sampled_by


@pytest.mark.parametrize("estimator", [grpo, grpo_behaviour_clip, grpo_dis, sao])
def test_on_policy_nothing_is_masked_and_every_weight_is_one(estimator) -> None:  # type: ignore[no-untyped-def]
    """Case A53: what sampler and trainer compute apart is numerics, and must stay below 1e-5."""
    student = learner(estimator())
    questions, batch = sampled_by(student, group_size=1 if estimator is sao else 8)
    seen = student.update(questions, batch, student.policy.snapshot())
    assert seen["masked_fraction"] == seen["clipped_fraction"] == 0.0
    assert seen["ess_token"] == pytest.approx(1.0, abs=1e-5)
    assert abs(seen["k1"]) < 1e-5


def test_first_gradient_equals_the_policy_gradient_written_out_in_numpy() -> None:
    """On-policy GRPO: (softmax - onehot) A / (rollouts x tokens), back through one hidden layer."""
    student = learner(grpo_behaviour_clip())
    questions, batch = sampled_by(student)
    first, bias, second, second_bias = (w.detach().double().numpy() for w in student.policy.parameters())
    a, b, y = (t.numpy() for t in (questions.a, questions.b, batch.token_ids))
    hidden = np.maximum(first[a] + first[10 + b] + bias, 0)
    logits = hidden @ second + second_bias
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    reward = batch.returns.double().numpy().reshape(-1, 8)
    spread = reward.std(1, ddof=1, keepdims=True)
    advantage = ((reward - reward.mean(1, keepdims=True)) / (spread + 1e-6)).ravel()
    error = (probs - np.eye(10)[y]) * advantage[:, None, None] / y.size
    expected = np.einsum("bth,btv->hv", hidden, error)
    student.update(questions, batch, student.policy.snapshot())
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
        networks = (student.policy, student.critic.network)
        start = [p.detach().clone() for network in networks for p in network.parameters()]
        for _ in range(3):
            questions, batch = sampled_by(student, group_size=1)
            student.update(questions, batch, student.policy.snapshot())
        assert steps == 3 * k
        moved = [p for network in networks for p in network.parameters()]
        assert all(not torch.equal(a, b) for a, b in zip(start, moved, strict=True))


def test_while_only_the_critic_trains_the_policy_rests_bit_for_bit() -> None:
    student = learner(sao(critic=CriticRecipe(critic_only_updates=2)))
    start = student.policy.snapshot()
    for update in range(3):
        questions, batch = sampled_by(student, group_size=1)
        student.update(questions, batch, start)
        assert torch.equal(student.policy.snapshot(), start) == (update < 2)


def test_values_from_before_and_from_after_the_fit_differ_and_the_recipe_decides() -> None:
    """Case A55: fitted to the same rollouts first, the critic takes part of the advantage away."""
    values = {}
    for when in ("before", "after"):
        recipe = CriticRecipe(value_when=when, critic_only_updates=0)
        student = learner(sao(critic=recipe))
        assert student.critic is not None
        questions, batch = sampled_by(student, group_size=1)
        values[when] = student.critic.fit(questions, batch).batch.values
    assert (values["before"] == 0).all()  # the head starts at zero
    assert (values["after"] != 0).all()


def test_a_gradient_that_is_not_finite_is_refused_and_counted() -> None:
    student = learner(grpo())
    questions, batch = sampled_by(student)
    broken = dataclasses.replace(batch, rewards=batch.rewards.clone())
    broken.rewards[0, -1] = torch.inf
    start = student.policy.snapshot()
    assert student.update(questions, broken, start)["refused"] == 1.0
    assert torch.equal(student.policy.snapshot(), start)
    assert student.update(questions, batch, start)["refused"] == 0.0


def test_accuracy_and_entropy_are_exact() -> None:
    student = learner(grpo(), rate=1e-12)  # an update that moves nothing
    with torch.no_grad():
        for weight in student.policy.parameters():
            weight.zero_()
        student.policy.second_bias[3] = 1.0
    questions, batch = sampled_by(student)
    seen = student.update(questions, batch, student.policy.snapshot())
    # ten of the hundred sums end in 3: the favoured answer has e / (e + 9), the others 1 / (e + 9)
    total = np.e + 9
    assert seen["accuracy"] == pytest.approx(0.1 * np.e / total + 0.9 / total, rel=1e-5)
    assert seen["entropy"] == pytest.approx(np.log(total) - np.e / total, rel=1e-5)
