import numpy as np
import torch

from simulator.lab.modular_addition import Questions, Sampled, answered, correct, right_answers
from tests.simulator.lab.worlds import world


def test_question_numbers_and_their_answers() -> None:
    pairs = [(i, j) for i in range(7) for j in range(7)]
    a, b = (torch.tensor([column]) for column in zip(*pairs, strict=True))
    assert Questions(a, b).number(7).flatten().tolist() == list(range(49))
    assert right_answers(7).tolist() == [(i + j) % 7 for i, j in pairs]


def test_right_answers_by_hand() -> None:
    questions = Questions(torch.tensor([[9, 1, 5]]), torch.tensor([[9, 1, 5]]))
    assert correct(questions, torch.tensor([[8, 2, 1]]), 10).tolist() == [[1.0, 1.0, 0.0]]


def test_the_reward_is_the_fraction_right_and_sits_on_the_last_token() -> None:
    questions = Questions(torch.tensor([[9, 1, 5, 0]]), torch.tensor([[9, 1, 5, 0]]))
    sampled = Sampled(torch.tensor([[8, 2, 1, 0]]), torch.full((1, 4), -1.0))
    batch = answered(questions, sampled, torch.zeros(1, 4, dtype=torch.long), torch.tensor([3]), modulus=10)
    assert batch.rewards.tolist() == [[0.0, 0.0, 0.0, 0.75]]
    assert batch.action_mask.all()
    assert batch.group_ids.tolist() == [3]


def test_members_of_a_prompt_are_asked_the_same_and_decide_by_other_numbers() -> None:
    place = world()
    questions = place.prompts(np.array([4, 4, 5]))
    assert torch.equal(questions.a[0], questions.a[1])
    assert not torch.equal(questions.a[0], questions.a[2])
    uniforms = place.uniforms(np.array([32, 33]))
    assert not torch.equal(uniforms[0], uniforms[1])
