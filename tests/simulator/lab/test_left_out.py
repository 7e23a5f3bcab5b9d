"""Rollouts whose environment crashed: left out of the loss, they might as well never have been."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from simulator.lab.config import LearnConfig
from simulator.lab.learner import Learner
from simulator.lab.methods import METHODS
from simulator.lab.names import SINGLE
from simulator.lab.parts import Lesson
from simulator.lab.pretraining import pretrain
from simulator.lab.replay import replay
from simulator.lab.run import learn
from simulator.lab.student import Student
from simulator.lab.worlds import ToolLookupWorld
from simulator.studies.runs import emergent, imposed
from tests.simulator.lab.worlds import sampled_by, world

SHORT = {"vapo": "vapo_alpha_1.5"}
"""VAPO's own lambda refuses responses of eight tokens."""
WORLD = ToolLookupWorld(
    most_turns=3, width=32, warm_start_accuracy=0.02, crash_probability=0.3, crashed_rollouts="leave_out"
)


def student_of(name: str) -> Learner:
    task = world()
    return Learner(METHODS[SHORT.get(name, name)](), task.policy(), task.critic, learning_rate=4e-3)


def sampled(name: str, student: Learner, left_out: list[int]) -> tuple[Lesson, Lesson]:
    """A lesson with rollouts that are left out, and the lesson that never had them."""
    lesson = sampled_by(student, rollouts=32, group_size=1 if name in SINGLE else 8)
    out = torch.zeros(32, dtype=torch.bool)
    out[left_out] = True
    # What a crash leaves behind may be anything.
    rewards = lesson.batch.rewards.masked_fill(out[:, None], 7.0)
    whole = dataclasses.replace(lesson.batch, rewards=rewards)
    there = (~out).nonzero()[:, 0]
    return (
        Lesson(prompts=lesson.prompts, batch=whole, left_out=out),
        Lesson(prompts=lesson.prompts[there], batch=lesson.batch.rows(there)),
    )


def weights(student: Learner) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in [*student.policy.parameters(), *critics(student)]])


def critics(student: Learner) -> list[torch.nn.Parameter]:
    return [] if student.critic is None else [p for _, p in student.critic.network.named_parameters()]


@pytest.mark.parametrize("name", METHODS)
def test_left_out_is_as_if_it_had_never_been(name: str) -> None:
    # One of the first group, all but one of the second, all of the third, none of the fourth.
    gone = [0, *range(8, 15), *range(16, 24)]
    seen, gradients, after = [], [], []
    for which in range(2):
        student = student_of(name)
        lesson = sampled(name, student, gone)[which].kept()
        seen.append(student.update(lesson))
        gradients.append(torch.cat([p.grad.flatten() for p in student.policy.parameters()]))  # type: ignore[union-attr]
        after.append(torch.cat([torch.zeros(0), *(p.detach().flatten() for p in critics(student))]))
        assert student.baseline is None or len(student.baseline.state()) <= 32 - len(gone)
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(after[0], after[1], rtol=1e-4, atol=1e-5)
    for key, value in seen[1].items():
        assert seen[0][key] == pytest.approx(value, rel=1e-4, abs=1e-6, nan_ok=True), key


@pytest.mark.parametrize("name", METHODS)
def test_all_left_out_moves_nothing_not_even_by_momentum(name: str) -> None:
    student = student_of(name)
    student.update(sampled(name, student, [])[0].kept())
    start = weights(student)
    seen = student.update(sampled(name, student, list(range(32)))[0].kept())
    assert torch.equal(weights(student), start)
    assert np.isnan(seen["reward"])
    assert seen["loss"] == 0.0
    assert seen["refused"] == 0.0


def small(estimator: str, kind: object = imposed, **changes: object) -> LearnConfig:
    lag = {"lag_updates": 2} if kind is imposed else {}
    changes = {"seed": 3, "updates": 4, "world": WORLD, "learning_rate": 1e-4} | lag | changes
    return kind(estimator, **changes)  # type: ignore[operator,no-any-return]


@pytest.mark.parametrize(("estimator", "kind"), [("grpo", emergent), ("sao", emergent), ("sao", imposed)])
def test_a_log_has_no_reward_for_what_was_left_out_and_counts_it(estimator: str, kind: object) -> None:
    finished = learn(small(estimator, kind))
    finished.ledger.check()
    rollouts = finished.log.rollouts.to_pandas()
    trained = rollouts[rollouts["status"] == "trained"]
    assert finished.log.rollouts["reward"].null_count == rollouts["reward"].isna().sum()
    unknown = trained["reward"].isna().groupby(trained["consumed_version"]).sum()
    updates = finished.log.updates.to_pandas()
    assert unknown.tolist() == updates["left_out_rollouts"].tolist()
    assert (unknown > 0).all()
    known = trained.groupby("consumed_version")["reward"].mean()
    np.testing.assert_allclose(known, updates["reward"], atol=1e-6)
    # What was said is said, whatever becomes of it.
    assert (trained["action_tokens"] > 0).all()
    assert trained["action_tokens"].sum() == updates["tokens"].sum()
    assert (updates["rollouts"] == 128).all()


def test_crashes_that_earn_zero_are_rewards_like_others() -> None:
    world = WORLD.model_copy(update={"crashed_rollouts": "zero"})
    log = learn(small("grpo", world=world)).log
    assert "left_out_rollouts" not in log.updates.column_names
    assert log.rollouts["reward"].null_count == 0


def test_a_replay_leaves_out_the_same_ones() -> None:
    config = small("grpo", emergent)
    recorded = learn(config).log
    assert replay(Student(config), recorded).digest() == recorded.digest()


def test_a_value_model_is_not_pretrained_on_crashes() -> None:
    """Rewards of 7 at crashes would show; the same engines, the same rollouts, other rewards at crashes."""
    found = []
    for bonus in (0.0, 7.0):
        student = Student(small("sao"))
        sampler, critic = student.sampler, student.learner.critic
        assert critic is not None
        sample = sampler.sample

        def spoilt(traffic, sample=sample, bonus=bonus):  # type: ignore[no-untyped-def]
            lesson = sample(traffic)
            rewards = lesson.batch.rewards + bonus * (lesson.left_out[:, None] & lesson.batch.action_mask)
            return dataclasses.replace(lesson, batch=dataclasses.replace(lesson.batch, rewards=rewards))

        class Spoilt:
            sample = staticmethod(spoilt)

        with pytest.warns(UserWarning, match="value_pretraining_bootstrap"):
            pretrain(critic, Spoilt(), rollouts=128)  # type: ignore[arg-type]
        found.append(weights(student.learner))
    assert torch.equal(*found)
