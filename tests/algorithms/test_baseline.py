import dataclasses

import pytest
import torch

from algorithms.baseline import RewardHistory, shared
from tests.algorithms.make import bandit


def test_a_prompt_expects_the_mean_of_its_last_eight_rewards():
    history = RewardHistory(empty=0.5)
    for reward in range(10):  # prompt 0 earns 0..9, prompt 1 nothing yet
        history = history.extended(bandit([float(reward)], [0]))
    # Last eight: 2..9, mean 5.5.
    assert history.baselines(torch.tensor([0, 1])).tolist() == [5.5, 0.5]


def test_the_online_setting_shares_one_window():
    history = RewardHistory(window=3, key=shared).extended(bandit([1.0, 2.0, 3.0, 6.0], [0, 1, 2, 3]))
    assert history.baselines(torch.tensor([0, 99])).tolist() == [11 / 3, 11 / 3]


def test_extending_leaves_the_old_history_as_it_was():
    before = RewardHistory()
    before.extended(bandit([1.0], [0]))
    assert before.baselines(torch.tensor([0])).tolist() == [0.0]


def test_an_empty_window_is_refused():
    with pytest.raises(ValueError, match="window"):
        RewardHistory(window=0)


def test_a_rollout_without_an_action_leaves_the_history_as_it_was():
    idle = dataclasses.replace(bandit([1.0, 5.0], [0, 1]), action_mask=torch.tensor([[True], [False]]))
    history = RewardHistory(empty=0.5).extended(idle)
    assert history.baselines(idle.prompt_ids).tolist() == [1.0, 0.5]
