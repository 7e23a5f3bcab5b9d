"""Reported faults of advantages over action tokens, observations and padding, with the right numbers."""

import pytest
import torch

from algorithms.gae import skip_observation_gae
from algorithms.rollout import Batch, Rollout
from tests.algorithms.make import T64, batch, terminal


def close(got: torch.Tensor, wanted: list[float], atol: float = 5e-6) -> None:
    torch.testing.assert_close(got.flatten(), torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=0)


def one(mask: list[int], values: list[float], reward: float, at: int | None = None) -> Batch:
    """One rollout; the reward on its last action, or at a place of the test's choosing."""
    action = torch.tensor([mask], dtype=torch.bool)
    rewards = terminal(action, [reward])
    if at is not None:
        rewards = torch.zeros(1, len(mask), dtype=T64)
        rewards[0, at] = reward
    return batch(action, rewards=rewards, values=torch.tensor([values], dtype=T64))


@pytest.mark.parametrize(
    ("gamma", "lam", "skipped"), [(0.9, 0.8, [0.21712, 0.246, 0.3]), (1.0, 0.95, [0.46575, 0.385, 0.3])]
)
def test_tool_tokens_neither_decay_nor_leak(gamma: float, lam: float, skipped: list[float]):
    """A35: mask [1, 1, 0, 0, 1], V = [.5, .6, 9, 9, .7], reward 1 at the end."""
    mask, values = [1, 1, 0, 0, 1], [0.5, 0.6, 9.0, 9.0, 0.7]
    got = skip_observation_gae(one(mask, values, 1.0), gamma=gamma, lam=lam)
    close(got, [*skipped[:2], 0.0, 0.0, skipped[2]])
    alone = skip_observation_gae(one([1, 1, 1], [0.5, 0.6, 0.7], 1.0), gamma=gamma, lam=lam)
    close(alone, skipped)


def test_stepping_through_tool_tokens_is_what_the_mask_prevents():
    """A35: the same numbers with every token an action: 9s leak, and zeroing them decays twice more."""
    stepped = skip_observation_gae(one([1] * 5, [0.5, 0.6, 9.0, 9.0, 0.7], 1.0), gamma=0.9, lam=0.8)
    close(stepped[0, [0, 1, 4]], [1.92998, 2.62497, 0.3])
    zeroed = skip_observation_gae(one([1] * 5, [0.5, 0.6, 0.0, 0.0, 0.7], 1.0), gamma=0.9, lam=0.8)
    close(zeroed[0, [0, 1, 4]], [-0.07623, -0.16143, 0.3])


def test_the_score_belongs_on_the_end_of_sequence_token():
    """A37: [a, b, EOS, pad, pad], V = 0, score 1, lambda .95; one place later every token shrinks."""
    close(skip_observation_gae(one([1, 1, 1, 0, 0], [0.0] * 5, 1.0), lam=0.95), [0.9025, 0.95, 1.0, 0, 0])
    on_pad = one([1, 1, 1, 0, 0], [0.0] * 5, 1.0, at=3)
    assert not skip_observation_gae(on_pad, lam=0.95).any()  # padding is masked first: the score is lost
    late = skip_observation_gae(one([1, 1, 1, 1, 0], [0.0] * 5, 1.0), lam=0.95)
    close(late[0, :3], [0.857375, 0.9025, 0.95])


def test_a_score_on_a_token_that_nobody_chose_is_refused_where_rollouts_enter():
    """A37: what the batch above would lose without a word cannot be handed over."""
    with pytest.raises(ValueError, match=r"reward\[3\] = 1.0 sits on an observation"):
        Rollout(
            prompt_id=0,
            group_id=0,
            token_ids=(5, 6, 2, 0),
            action_mask=(True, True, True, False),
            behaviour_log_probs=(-1.0,) * 4,
            policy_versions=(0,) * 4,
            reward=(0.0, 0.0, 0.0, 1.0),
        )


def test_only_what_the_model_chose_is_rewarded_or_counted():
    """A48: [assistant, final, TOOL, pad] under the mask [1, 1, 0, 0]."""
    rolled = batch(
        [[1, 1, 0, 0]],
        token_ids=torch.tensor([[11, 12, 13, 0]]),
        rewards=torch.tensor([[0.0, 1.0, 5.0, 7.0]], dtype=T64),
    )
    assert rolled.token_ids[rolled.action_mask].tolist() == [11, 12]
    assert rolled.returns.tolist() == [1.0]
    assert rolled.action_tokens.tolist() == [2]


def test_the_end_of_sequence_token_is_kept_where_padding_has_the_same_id():
    """A50: ids [5, 6, 2, 2, 2] with eos = pad = 2: three tokens, by what was sampled."""

    def sampled(*ids: int) -> Rollout:
        return Rollout(
            prompt_id=0,
            group_id=0,
            token_ids=ids,
            action_mask=(True,) * len(ids),
            behaviour_log_probs=(-1.0,) * len(ids),
            policy_versions=(0,) * len(ids),
            reward=1.0,
        )

    padded = Batch.from_rollouts([sampled(5, 6, 2), sampled(5, 6, 7, 8, 9)])
    assert padded.action_tokens.tolist() == [3, 5]
    assert int((torch.tensor([5, 6, 2, 2, 2]) != 2).sum()) == 2
    assert padded.rewards[0].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
