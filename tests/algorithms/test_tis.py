"""Truncated weights divided by their mean over the batch."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from algorithms.grpo import grpo
from algorithms.rollout import Batch
from algorithms.tis import over_rollouts, over_tokens, sequence_tis, token_tis
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch


def mismatched(*log_rho: list[float]) -> Batch:
    old = rows(*log_rho) - 1.0
    mask = old.isfinite()
    return batch(
        mask, behaviour_log_probs=torch.full_like(old, -1.0).where(mask, math.nan), old_log_probs=old
    )


def weights(estimator, record: Batch) -> Tensor:
    assert record.old_log_probs is not None
    fixed = estimator.fixed(record.old_log_probs, record, record.action_mask.to(T64))
    return fixed.correction(record)


def close(got: Tensor, wanted: list[list[float]]) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=5e-5, rtol=0)


def test_by_hand_truncated_first():
    # 1.6487, .6065 and 2 have the mean 1.41841.
    close(
        weights(token_tis(normalise=over_tokens), mismatched([0.5, -0.5, 1.0])), [[1.16237, 0.42762, 1.41002]]
    )


def test_a_rollout_counts_once_however_long_it_is():
    record = mismatched([0.0, 0.0, 0.0], [math.log(1.5)])
    close(weights(sequence_tis(normalise=over_rollouts), record), [[0.8] * 3, [1.2, 0.0, 0.0]])
    close(weights(sequence_tis(normalise=over_tokens), record), [[1 / 1.125] * 3, [1.5 / 1.125, 0.0, 0.0]])


@settings(max_examples=20)
@given(st.lists(st.lists(st.floats(-30, 30), min_size=1, max_size=4), min_size=1, max_size=4))
def test_the_mean_is_one(log_rho: list[list[float]]):
    record = mismatched(*log_rho)
    for make in (token_tis, sequence_tis):
        for mean in (over_tokens, over_rollouts):
            normalised = weights(make(normalise=mean), record)
            assert mean(normalised, record.action_mask).item() == pytest.approx(1.0)


def test_where_all_weights_are_equal_nothing_is_left_of_them():
    record = random_batch(0)
    record = dataclasses.replace(record, behaviour_log_probs=record.old_log_probs - 100.0)
    policy = policy_near(dataclasses.replace(record, behaviour_log_probs=record.old_log_probs), 0.3)
    wanted = loss_and_gradient(grpo(), policy, record)
    for estimator in (token_tis(normalise=over_tokens), sequence_tis(normalise=over_rollouts)):
        for got, want in zip(loss_and_gradient(estimator, policy, record), wanted, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mean", [over_tokens, over_rollouts])
def test_rollouts_without_action_tokens_are_not_counted(mean):
    record = mismatched([math.log(1.5), 0.0], [math.nan, math.nan])
    assert mean(token_tis().correction(record), record.action_mask).item() == pytest.approx(1.25)
    assert mean(torch.ones(1, 2), torch.zeros(1, 2).bool()).item() == 0.0
