"""Sums by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simulator.lab.tasks.carry_addition import BLANK, EQUALS, PLUS, STOP, CarryAddition
from simulator.lab.tasks.game import CHOOSE, END

GAME = CarryAddition(seed=3)


def prompt(a: int, b: int) -> torch.Tensor:
    return GAME.written(torch.tensor([[a, b]]))


def reward(a: int, b: int, said: list[int], *, width: int | None = None) -> float:
    """Of a response, padded to `width` columns."""
    tokens = torch.zeros(1, width or len(said), dtype=torch.long)
    tokens[0, : len(said)] = torch.tensor(said)
    mask = torch.arange(tokens.shape[1])[None] < len(said)
    return GAME.rewards(prompt(a, b), tokens, mask).item()


def test_a_prompt_is_both_numbers_lowest_digit_first():
    assert prompt(47, 5)[0].tolist() == [7, 4, BLANK, BLANK, PLUS, 5, BLANK, BLANK, BLANK, EQUALS]
    assert prompt(0, 9300)[0].tolist() == [0, BLANK, BLANK, BLANK, PLUS, 0, 0, 3, 9, EQUALS]
    assert GAME.prompt_tokens == 10


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        (47, 5, [2, 5, STOP]),
        (0, 0, [0, STOP]),
        (5, 5, [0, 1, STOP]),
        (100, 20, [0, 2, 1, STOP]),
        (9999, 9999, [8, 9, 9, 9, 1, STOP]),
        (999, 1, [0, 0, 0, 1, STOP]),
    ],
)
def test_the_right_answer(a, b, answer):
    right = GAME.demonstration(prompt(a, b))
    assert right.tokens[0][right.action_mask[0]].tolist() == answer
    assert right.action_mask[0].tolist() == [True] * len(answer) + [False] * (6 - len(answer))
    assert GAME.said_tokens(prompt(a, b)).item() == len(answer)
    assert reward(a, b, answer) == reward(a, b, answer, width=6) == reward(a, b, answer, width=9) == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        [5, 2, STOP],  # highest digit first
        [2, 5],  # not stopped
        [2, 5, 0, STOP],  # a zero in front
        [2, STOP],
        [2, 6, STOP],
        [STOP],
        [2, PLUS, STOP],
        [2, 5, EQUALS, BLANK, 0, 0],
    ],
)
def test_wrong_answers(wrong):
    assert reward(47, 5, wrong) == reward(47, 5, wrong, width=6) == 0.0


def test_a_zero_in_padding_is_no_digit():
    assert reward(0, 0, [0, STOP], width=6) == 1.0
    assert reward(0, 0, [0], width=6) == 0.0


def test_the_model_writes_until_it_stops():
    tokens = torch.tensor([[2, STOP, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, STOP]])
    prompts = prompt(1, 1).expand(3, -1)
    follows = torch.stack([GAME.follow(prompts, tokens, t) for t in range(7)], 1)
    expected = [
        [CHOOSE, CHOOSE, END, END, END, END, END],
        [CHOOSE] * 7,  # truncated: asked beyond the last token, it has not ended
        [CHOOSE] * 6 + [END],
    ]
    assert follows.tolist() == expected


def test_prompts_follow_from_id_and_seed():
    ids = np.array([5, 70_000, 5])
    prompts = GAME.prompts(ids)
    assert torch.equal(prompts[0], prompts[2])
    assert torch.equal(prompts[1], CarryAddition(seed=3).prompts(ids)[1])
    assert not torch.equal(prompts, CarryAddition(seed=4).prompts(ids))
    numbers = GAME.read(prompts)
    assert torch.equal(GAME.written(numbers), prompts)
    assert repr(GAME) == "CarryAddition(seed=3, most_digits=4)"


def test_all_numbers_of_digits_are_equally_likely_and_lengths_have_mean_one():
    """Over 20,000 prompts; 5 standard errors."""
    count = 20_000
    numbers = GAME.read(GAME.prompts(np.arange(count)))
    digits = torch.tensor([[len(str(n)) for n in pair] for pair in numbers.tolist()])
    for column in digits.T:
        shares = column.bincount(minlength=5)[1:] / count
        assert (shares - 0.25).abs().max() < 5 * (0.25 * 0.75 / count) ** 0.5
    # Mean of the longer of two: (1 + 3 x 2 + 5 x 3 + 7 x 4) / 16 = 3.125.
    lengths = digits.max(1).values / 3.125
    assert abs(lengths.mean().item() - 1) < 5 * lengths.std().item() / count**0.5
    some = range(0, 200, 7)
    assert [GAME.relative_length(i) for i in some] == pytest.approx([lengths[i].item() for i in some])


def test_longer_answers_are_longer_rollouts():
    prompts = GAME.prompts(np.arange(500))
    said = GAME.said_tokens(prompts).double()
    relative = torch.tensor([GAME.relative_length(i) for i in range(500)]).double()
    # An answer is its longer number, the stop token, and at times a last carry.
    extra = said - relative * 3.125 - 1
    assert set(extra.round().tolist()) == {0.0, 1.0}


def test_smaller_numbers():
    game = CarryAddition(seed=0, most_digits=2)
    assert (game.prompt_tokens, game.response_tokens, game.vocabulary) == (6, 4, 14)
    assert game.read(game.prompts(np.arange(1000))).max() <= 99
    prompts = game.written(torch.tensor([[99, 1]]))
    assert game.demonstration(prompts).tokens[0].tolist() == [0, 0, 1, STOP]
