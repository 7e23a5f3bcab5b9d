import dataclasses

import numpy as np
import pytest
import torch

from simulator.lab.models.pairs import PairPolicy
from simulator.lab.tasks.modular_addition import correct, right_answers
from simulator.lab.traffic import Part
from tests.simulator.lab.worlds import traffic, world


def test_right_answers_are_listed_by_question_number() -> None:
    pairs = [(i, j) for i in range(7) for j in range(7)]
    assert right_answers(7).tolist() == [(i + j) % 7 for i, j in pairs]


def test_right_answers_by_hand() -> None:
    prompts = torch.tensor([[9, 1, 5, 9, 1, 5]])
    assert correct(prompts, torch.tensor([[8, 2, 1]]), 10).tolist() == [[1.0, 1.0, 0.0]]


def test_the_reward_is_the_fraction_right_and_sits_on_the_last_token() -> None:
    task = world()
    sampler = task.sampler()
    sampler.publish(0, task.policy().snapshot())
    lesson = sampler.sample(traffic(16))
    batch = lesson.batch
    right = (lesson.prompts[:, :8] + lesson.prompts[:, 8:]) % 10 == batch.token_ids
    assert torch.equal(batch.rewards[:, -1], right.float().mean(-1))
    assert (batch.rewards[:, :-1] == 0).all()
    assert batch.action_mask.all()
    assert batch.group_ids.tolist() == [0] * 8 + [1] * 8


def test_members_of_a_prompt_are_asked_the_same_and_decide_by_other_numbers() -> None:
    task = world()
    prompts = task.prompts(np.array([4, 4, 5]))
    assert torch.equal(prompts[0], prompts[1])
    assert not torch.equal(prompts[0], prompts[2])
    uniforms = task.uniforms(np.array([32, 33]))
    assert not torch.equal(uniforms[0], uniforms[1])


def test_what_a_rollout_says_depends_on_its_id_and_its_weights_alone() -> None:
    task = world()
    sampler = task.sampler()
    generator = torch.Generator().manual_seed(5)
    weights = [PairPolicy(modulus=10, hidden=64, generator=generator).snapshot() for _ in range(2)]
    for version, speaker in enumerate(weights):
        sampler.publish(version, speaker)
    asked = dataclasses.replace(traffic(16), parts=[(Part(0, 0), Part(1, 4))] * 16)
    whole = sampler.sample(asked)
    assert whole.batch.policy_versions.tolist() == [[0] * 4 + [1] * 4] * 16
    for t, speaker in ((0, weights[0]), (7, weights[1])):
        alone = speaker.log_probs(whole.prompts, whole.batch.token_ids)[:, t]
        torch.testing.assert_close(alone, whole.batch.behaviour_log_probs[:, t], rtol=0, atol=1e-6)
    last = {
        name: getattr(asked, name)[-1:]
        for name in ("rollout_ids", "prompt_ids", "group_ids", "length_tokens", "parts")
    }
    one = sampler.sample(dataclasses.replace(asked, **last))
    assert torch.equal(one.batch.token_ids[0], whole.batch.token_ids[-1])


def test_accuracy_and_entropy_are_exact() -> None:
    task = world()
    policy = task.policy()
    with torch.no_grad():
        for weight in policy.parameters():
            weight.zero_()
        policy.second_bias[3] = 1.0
    seen = task.measure(policy, 0)
    # ten of the hundred sums end in 3: the favoured answer has e / (e + 9), the others 1 / (e + 9)
    total = np.e + 9
    assert seen["accuracy"] == pytest.approx(0.1 * np.e / total + 0.9 / total, rel=1e-5)
    assert seen["entropy"] == pytest.approx(np.log(total) - np.e / total, rel=1e-5)
