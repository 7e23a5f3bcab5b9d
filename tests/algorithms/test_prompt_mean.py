"""Every prompt weighs the same, and its tokens share that weight."""

import dataclasses
import math

import pytest
import torch

from algorithms.aggregate import token_mean
from algorithms.cispo import scalerl
from algorithms.correction import token_ratio
from algorithms.estimator import Estimator
from algorithms.prompt_mean import each_prompt_alike
from algorithms.ratio import per_token
from algorithms.rollout import Batch
from algorithms.trust import importance_weighted
from tests.algorithms.make import batch, rows
from tests.laws.compositions import loss_and_gradient, random_batch

PLAIN = Estimator(
    advantage=lambda b: b.action_mask.to(b.rewards.dtype),
    log_ratio=per_token,
    trust=importance_weighted,
    aggregate=token_mean,
    adapt=each_prompt_alike,
)


def shares(record: Batch, estimator: Estimator = PLAIN) -> torch.Tensor:
    """-d loss / d log pi on-policy with advantages of one: what each token weighs in the whole."""
    return -loss_and_gradient(estimator, record.behaviour_log_probs, record)[1]


def test_by_hand():
    # Prompt 7 has four tokens and prompt 2 has two: a half for each prompt.
    record = batch([[1, 0, 0], [1, 1], [1, 1, 1]], group_ids=torch.tensor([7, 2, 7]))
    wanted = [[1 / 8, 0.0, 0.0], [1 / 4, 1 / 4, 0.0], [1 / 8, 1 / 8, 1 / 8]]
    torch.testing.assert_close(shares(record), rows(*wanted), rtol=1e-12, atol=0)


def test_a_prompt_without_action_tokens_is_no_prompt():
    record = batch([[1, 1], [0, 0]], group_ids=torch.tensor([0, 1]))
    torch.testing.assert_close(shares(record), rows([0.5, 0.5], [0.0, 0.0]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("seed", range(3))
def test_on_policy_scalerl_is_reinforce_averaged_over_prompts(seed: int):
    record = random_batch(seed)
    record = dataclasses.replace(record, old_log_probs=record.behaviour_log_probs)
    estimator = scalerl()
    _, gradient = loss_and_gradient(estimator, record.behaviour_log_probs, record)
    advantages, groups = estimator.advantage(record), record.group_ids.unique()
    wanted = torch.zeros_like(gradient)
    for group in groups:
        own = (record.group_ids == group)[:, None] & record.action_mask
        wanted -= advantages.where(own, 0.0) / own.sum() / len(groups)
    torch.testing.assert_close(gradient, wanted, rtol=1e-12, atol=1e-14)


def test_without_its_average_scalerl_is_a_token_mean():
    record = random_batch(0)
    _, gradient = loss_and_gradient(scalerl(average=None), record.behaviour_log_probs, record)
    wanted = -scalerl().advantage(record) / record.action_mask.sum()
    torch.testing.assert_close(gradient, wanted, rtol=1e-12, atol=1e-14)


def test_where_prompts_have_equal_tokens_nothing_changes():
    record = batch([[1, 1], [1, 0], [1, 1, 1]], group_ids=torch.tensor([0, 0, 3]))
    plain = dataclasses.replace(PLAIN, adapt=None)
    assert torch.equal(shares(record), shares(record, plain))


def test_it_multiplies_a_correction():
    record = batch(
        [[1], [1, 1]],
        old_log_probs=rows([math.log(3.0)], [0.0, math.log(2.0)]),
        group_ids=torch.tensor([0, 1]),
    )
    corrected = dataclasses.replace(PLAIN, correction=token_ratio)
    wanted = rows([3 / 2, 0.0], [1 / 4, 2 / 4]).where(record.action_mask, 0.0)
    torch.testing.assert_close(shares(record, corrected), wanted, rtol=1e-12, atol=0)


def test_another_batchs_group_is_refused():
    record = batch([[1], [1]], group_ids=torch.tensor([0, 5]))
    fixed = PLAIN.fixed(record.behaviour_log_probs, record, PLAIN.advantage(record))
    for strange in (3, 9):
        other = batch([[1]], group_ids=torch.tensor([strange]))
        with pytest.raises(ValueError, match="fix this batch first"):
            fixed.surrogate(other.behaviour_log_probs, other, PLAIN.advantage(other))
