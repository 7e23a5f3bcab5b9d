"""Rows moved together, and where the state before each token is."""

import pytest
import torch

from full_runs.trainer.layout import PACKED, PADDED, packed, padded

PROMPTS = torch.tensor([[-1, 7, 8], [1, 2, 3]])
TOKENS = torch.tensor([[4, 5, 6, 9], [10, -1, -1, -1]])


def test_rows_start_at_the_left_and_states_are_one_before_their_tokens():
    inputs = padded(PROMPTS, TOKENS)
    assert inputs.token_ids.tolist() == [[7, 8, 4, 5, 6, 9], [1, 2, 3, 10, 0, 0]]
    assert inputs.positions is None
    # Row 0: token 4 was chosen after 8, at place 1. Row 1 starts at place 6; behind its only token stands the
    # state after it, place 9.
    assert inputs.before.tolist() == [[1, 2, 3, 4], [8, 9, 9, 9]]


def test_packed_rows_follow_each_other_and_positions_start_anew():
    inputs = packed(PROMPTS, TOKENS)
    assert inputs.token_ids.tolist() == [[7, 8, 4, 5, 6, 9, 1, 2, 3, 10]]
    assert inputs.positions is not None
    assert inputs.positions.tolist() == [[0, 1, 2, 3, 4, 5, 0, 1, 2, 3]]
    assert inputs.before.tolist() == [[1, 2, 3, 4], [8, 9, 9, 9]]


def test_cost_is_what_the_model_reads():
    assert PADDED.cost([6, 4]) == padded(PROMPTS, TOKENS).token_ids.numel()
    assert PACKED.cost([6, 4]) == packed(PROMPTS, TOKENS).token_ids.numel()


@pytest.mark.parametrize("arrange", [padded, packed])
def test_an_empty_prompt_is_refused_by_its_row(arrange):
    prompts = torch.tensor([[1], [-1]])
    with pytest.raises(ValueError, match=r"rows \[1\] have an empty prompt"):
        arrange(prompts, torch.tensor([[2], [3]]))
