import dataclasses
import math
from typing import Any

import pytest
import torch

from algorithms.rollout import Batch, Rollout


def rollout(**fields: Any) -> Rollout:
    """Two actions around an observation, sampled by versions 3, 3 and 4."""
    defaults: dict[str, Any] = {
        "prompt_id": 1,
        "group_id": 2,
        "token_ids": (5, 6, 7),
        "action_mask": (True, False, True),
        "behaviour_log_probs": (-0.5, math.nan, -0.25),
        "policy_versions": (3, 3, 4),
        "reward": 1.0,
    }
    return Rollout(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"token_ids": (5, 6)}, "share one positive length"),
        ({"action_mask": (False, False, False)}, "no True"),
        ({"reward": math.nan}, "reward must be finite"),
        ({"reward": (1.0,)}, "1 entries for 3 tokens"),
        ({"reward": (0.0, 1.0, 0.0)}, r"reward\[1\] = 1.0 sits on an observation"),
        ({"behaviour_log_probs": (math.nan, 0.0, -1.0)}, r"behaviour_log_probs\[0\]"),
        ({"behaviour_log_probs": (-1.0, 0.0, 0.5)}, r"behaviour_log_probs\[2\]"),
        ({"temperature": 0.0}, "temperature must be positive"),
    ],
)
def test_a_rollout_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        rollout(**fields)


def test_a_terminal_reward_lands_on_the_last_action():
    assert rollout().token_rewards == (0.0, 0.0, 1.0)
    ends_with_observation = rollout(action_mask=(True, False, False), reward=2.0)
    assert ends_with_observation.token_rewards == (2.0, 0.0, 0.0)


def test_the_oldest_action_token_decides_the_lag():
    assert rollout().oldest_lag(10) == 7
    assert rollout(policy_versions=(4, 0, 5)).oldest_lag(10) == 6  # the observation's version is nobody's


def test_a50_length_comes_from_the_sampler_not_from_pad_ids():
    # Token 2 is both end-of-sequence and padding; the sampled end token stays.
    ended = rollout(token_ids=(5, 6, 2), action_mask=(True, True, True), behaviour_log_probs=(-1.0,) * 3)
    longer = rollout(
        token_ids=(5, 6, 7, 8, 2),
        action_mask=(True,) * 5,
        behaviour_log_probs=(-1.0,) * 5,
        policy_versions=(0,) * 5,
    )
    assert Batch.from_rollouts([ended, longer]).action_tokens.tolist() == [3, 5]


def test_from_rollouts_pads_on_the_right():
    short = rollout(
        token_ids=(9,), action_mask=(True,), behaviour_log_probs=(-1.0,), policy_versions=(5,), reward=-2.0
    )
    batch = Batch.from_rollouts([rollout(), short])
    assert batch.action_mask.tolist() == [[True, False, True], [True, False, False]]
    assert batch.returns.tolist() == [1.0, -2.0]
    assert batch.lag(10).tolist() == [[7, 0, 6], [5, 0, 0]]
    with pytest.raises(ValueError, match="at least one rollout"):
        Batch.from_rollouts([])


def test_rows_take_every_field_along():
    batch = Batch.from_rollouts([rollout(), rollout(reward=3.0)])
    batch = dataclasses.replace(batch, bootstrap_values=torch.tensor([1.0, 2.0]))
    part = batch.rows(slice(1, 2))
    assert part.returns.tolist() == [3.0]
    assert part.bootstrap_values is not None
    assert part.bootstrap_values.tolist() == [2.0]
    assert part.values is None


@pytest.mark.parametrize("shape", [(2,), (2, 1), (1, 3), (2, 4)])
def test_values_of_another_shape_are_refused(shape: tuple[int, ...]):
    batch = Batch.from_rollouts([rollout(), rollout()])
    with pytest.raises((ValueError, TypeError)):
        dataclasses.replace(batch, values=torch.zeros(shape))
