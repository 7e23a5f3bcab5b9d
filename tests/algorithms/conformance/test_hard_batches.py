"""The strategies make what they promise: each hardness is found, and every batch is a batch."""
# ruff: noqa: ARG005 - one signature for all

import pytest
import torch
from hypothesis import Phase, find, given, settings

from algorithms.conformance.hard_batches import Draft, Row, Token, assembled, hard_batches

QUIET = settings(derandomize=True, database=None, deadline=None, max_examples=400, phases=[Phase.generate])


def group_sizes(batch):
    return torch.unique(batch.group_ids, return_counts=True)[1].tolist()


HARDNESS = {
    "a gap in the mask": lambda b, lp: any(r.tolist()[:3] == [True, False, True] for r in b.action_mask),
    "no action token": lambda b, lp: not b.action_mask.any(),
    "one token": lambda b, lp: b.action_mask.shape == (1, 1),
    "a group of one beside others": lambda b, lp: sorted(group_sizes(b))[:1] == [1] and len(b.group_ids) > 2,
    "equal rewards": lambda b, lp: len(b.rewards) > 1 and b.returns.unique().numel() == 1,
    "ragged ends": lambda b, lp: b.action_mask[:, -1].tolist() == [False, True],
    "truncation": lambda b, lp: b.truncated.any() and not b.truncated.all(),
    "a ratio of e^100": lambda b, lp: ((lp - b.behaviour_log_probs) == 100).any(),
    "a ratio of e^-100": lambda b, lp: ((lp - b.behaviour_log_probs) == -100).any(),
    "NaN": lambda b, lp: lp.isnan().any() and b.rewards.isnan().any(),
}


@pytest.mark.parametrize("hardness", list(HARDNESS))
def test_each_hardness_is_there(hardness: str):
    find(hard_batches(), lambda case: bool(HARDNESS[hardness](*case)), settings=QUIET)


@settings(max_examples=40)
@given(hard_batches(some=True, poison=True))
def test_numbers_are_where_the_model_chose_and_nan_elsewhere(case):
    batch, log_probs = case
    assert batch.action_mask.any()
    for tensor in (log_probs, batch.behaviour_log_probs, batch.old_log_probs, batch.values, batch.rewards):
        assert torch.equal(tensor.isnan(), ~batch.action_mask)
    chosen = batch.action_mask
    assert (log_probs[chosen] <= 0).all()
    assert (batch.behaviour_log_probs[chosen] <= 0).all()


def test_a_reward_sits_on_the_last_action_token_by_hand():
    tokens = (Token(), Token(log_ratio=1.0), Token(chosen=False))
    row = Row(group=7, reward=0.5, truncated=True, bootstrap=1.0, baseline=0.5, tokens=tokens)
    batch, log_probs = assembled(Draft((row,), old_share=0.5))
    assert batch.rewards.tolist() == [[0.0, 0.5, 0.0]]
    assert log_probs.tolist() == [[-1.0, -1.0, -1.0]]
    assert batch.behaviour_log_probs.tolist() == [[-1.0, -2.0, -1.0]]
    assert batch.old_log_probs is not None
    assert batch.old_log_probs.tolist() == [[-1.0, -1.5, -1.0]]


@settings(max_examples=40)
@given(hard_batches(shortest=5, longest=7, some=True))
def test_a_rollout_that_acts_acts_often_enough(case):
    counts = case[0].action_tokens
    assert counts.any()
    assert ((counts == 0) | (counts >= 5)).all()
    assert case[0].action_mask.shape[1] <= 7


def test_long_rollouts_have_gaps_too():
    found = find(
        hard_batches(shortest=3, longest=6),
        lambda case: (
            [1, 0, 1] in [r.int().tolist()[i : i + 3] for r in case[0].action_mask for i in range(4)]
        ),
        settings=QUIET,
    )
    assert found[0].action_tokens.max() >= 3


def test_lengths_out_of_order_are_refused():
    with pytest.raises(ValueError, match="shortest 5 and longest 4"):
        hard_batches(shortest=5)
