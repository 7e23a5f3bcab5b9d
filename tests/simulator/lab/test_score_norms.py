"""Sizes of single rollouts' gradients, and the baseline of VCPO that they make."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from algorithms.rollout import Batch
from simulator.lab.learner import Learner, sgd
from simulator.lab.methods import METHODS
from simulator.lab.parts import Lesson, Speaker
from simulator.lab.score_norms import squared_score_norms
from tests.algorithms.make import batch
from tests.simulator.lab.models.small import asked, network
from tests.simulator.lab.worlds import sampled_by, world


class Bandit(nn.Module):
    """One token out of two, whatever the prompt."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([share, 1 - share], dtype=torch.float64).log())

    def log_probs(self, prompts: Tensor, tokens: Tensor) -> Tensor:  # noqa: ARG002
        return self.logits.log_softmax(0)[tokens]

    def snapshot(self) -> Speaker:
        return Bandit(self.logits.softmax(0)[0].item())


def pulled(name: str, *, mu: float) -> float:
    """The first logit's gradient where pi is (.8, .2): one group, token 0 earns 1 and token 1 earns 0."""
    policy = Bandit(0.8)
    student = Learner(
        METHODS[name](), policy, lambda _: pytest.fail("no critic"), learning_rate=1.0, optimizer=sgd
    )
    told = batch(
        [[1], [1]],
        token_ids=torch.tensor([[0], [1]]),
        group_ids=torch.zeros(2, dtype=torch.long),
        rewards=torch.tensor([[1.0], [0.0]], dtype=torch.float64),
        behaviour_log_probs=torch.tensor([[math.log(mu)], [math.log(1 - mu)]], dtype=torch.float64),
    )
    student.update(Lesson(prompts=torch.zeros(2, 1), batch=told))
    assert policy.logits.grad is not None
    return policy.logits.grad[0].item()


def test_the_least_variance_baseline_by_hand() -> None:
    """Scores are (.2, -.2) and (-.8, .8), of squares .08 and 1.28; weights .8/.4 = 2 and .2/.6 = 1/3.

    b = 4 * .08 / (4 * .08 + 1.28 / 9) = 9/13; advantages over a deviation of .5: 8/13 and -18/13.
    """
    expected = -(2 * 8 / 13 * 0.2 + 1 / 3 * -18 / 13 * -0.8) / 2
    assert pulled("vcpo", mu=0.4) == pytest.approx(expected, rel=1e-5)


def test_its_weights_are_those_of_the_loss_truncated_at_eight() -> None:
    """.8/.05 = 16 counts 8: b = 64 * .08 / (64 * .08 + (.2/.95)^2 * 1.28)."""
    other = 0.2 / 0.95
    b = 64 * 0.08 / (64 * 0.08 + other**2 * 1.28)
    expected = -(8 * 2 * (1 - b) * 0.2 + other * 2 * -b * -0.8) / 2
    assert pulled("vcpo", mu=0.05) == pytest.approx(expected, rel=1e-5)


def test_the_ablation_has_the_groups_mean_for_a_baseline() -> None:
    assert pulled("vcpo_mean_baseline", mu=0.4) == pytest.approx(-(2 * 0.2 + 1 / 3 * 0.8) / 2, rel=1e-5)


def test_both_scale_the_learning_rate_alike() -> None:
    """ESS of the weights 2 and 1/3, of two: (7/3)^2 / (2 * 37/9) = 49/74."""
    for name in ("vcpo", "vcpo_mean_baseline"):
        factor = METHODS[name]().learning_rate_factor
        assert factor is not None
        given = batch(
            [[1], [1]],
            behaviour_log_probs=torch.tensor([[0.4], [0.6]], dtype=torch.float64).log(),
            old_log_probs=torch.tensor([[0.8], [0.2]], dtype=torch.float64).log(),
        )
        assert factor(given) == pytest.approx(math.sqrt(49 / 74))


def one_by_one(policy: nn.Module, lesson: Lesson) -> list[float]:
    found: list[float] = []
    for row in range(len(lesson.prompts)):
        policy.zero_grad()
        log_probs = policy.log_probs(lesson.prompts, lesson.batch.token_ids)[row]  # type: ignore[operator]
        log_probs[lesson.batch.action_mask[row]].sum().backward()
        gradients = [p.grad.flatten() for p in policy.parameters() if p.grad is not None]
        found.append(torch.cat(gradients).double().square().sum().item())
    return found


def spoken(rows: int) -> Lesson:
    """Rollouts of a language model with observations, one of them without an action token."""
    prompts, uniforms = asked(rows)
    mask = uniforms < 0.7
    mask[1] = False
    told: Batch = batch(mask, torch.float32, token_ids=(uniforms * 8).long())
    return Lesson(prompts=prompts, batch=told)


def test_sizes_are_those_of_one_backward_pass_a_rollout() -> None:
    policy, lesson = network(), spoken(11)
    found = squared_score_norms(policy, lesson)
    assert found[1] == 0
    assert found.tolist() == pytest.approx(one_by_one(policy, lesson), rel=1e-4)


def test_a_rollout_has_its_size_whoever_is_beside_it_and_no_gradient_is_touched() -> None:
    policy = world().policy()
    student = Learner(METHODS["vcpo"](), policy, world().critic, learning_rate=0.0)
    lesson = sampled_by(student, rollouts=24)
    whole = squared_score_norms(policy, lesson)
    assert all(p.grad is None for p in policy.parameters())
    few = Lesson(prompts=lesson.prompts[5:8], batch=lesson.batch.rows(slice(5, 8)))
    torch.testing.assert_close(squared_score_norms(policy, few), whole[5:8], rtol=1e-5, atol=0)
    assert whole.tolist() == pytest.approx(one_by_one(policy, lesson), rel=1e-4)
