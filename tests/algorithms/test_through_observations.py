"""GAE that takes observations for steps, by hand and against the recursion written out."""

import dataclasses
import math

import pytest
import torch

from algorithms.gae import length_adaptive, skip_observation_gae
from algorithms.through_observations import step_through_observation_gae
from tests.algorithms.make import T64, batch, rows


def test_by_hand() -> None:
    """V = [.5, 9, .25], the middle one an observation's, R = 1, lambda = 1/2: deltas 8.5, -8.75, .75."""
    given = batch(
        [[1, 0, 1, 0]],
        values=torch.tensor([[0.5, 9.0, 0.25, math.nan]], dtype=T64),
        rewards=torch.tensor([[0.0, math.nan, 1.0, math.nan]], dtype=T64),
    )
    found = step_through_observation_gae(given, lam=0.5)
    torch.testing.assert_close(found, torch.tensor([[4.3125, 0.0, 0.75, 0.0]], dtype=T64))
    # Skipping, the 9 is never read: deltas -.25 and .75.
    assert skip_observation_gae(given, lam=0.5)[0, 0].item() == pytest.approx(0.125)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_recursion_written_out_with_lambda_of_the_action_tokens(gamma: float) -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(20, 9, generator=generator) < 0.5
    mask[:, 0] = True
    mask[0, 1:] = False
    values, rewards = (torch.randn(20, 9, generator=generator, dtype=T64) for _ in range(2))
    cut, after = torch.rand(20, generator=generator) < 0.5, torch.randn(20, generator=generator, dtype=T64)
    given = batch(
        mask, values=values, rewards=rewards.where(mask, 0.0), truncated=cut, bootstrap_values=after
    )
    found = step_through_observation_gae(given, gamma=gamma, lam=length_adaptive(1.5))
    for row in range(20):
        actions = mask[row].nonzero()[:, 0].tolist()
        lam = 1 - 1 / (1.5 * len(actions))
        following, ahead = (after[row].item() if cut[row] else 0.0), 0.0
        for t in range(actions[-1], -1, -1):
            earned = rewards[row, t].item() if mask[row, t] else 0.0
            ahead = earned + gamma * following - values[row, t].item() + gamma * lam * ahead
            following = values[row, t].item()
            if mask[row, t]:
                assert found[row, t].item() == pytest.approx(ahead, abs=1e-9)
    assert (found[~mask] == 0).all()


def test_without_observations_there_is_nothing_to_skip() -> None:
    mask = rows([1, 1, 1], [1, 1], dtype=torch.long).bool()
    given = batch(mask, values=torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=T64))
    for lam in (0.3, length_adaptive(1.5)):
        assert torch.equal(step_through_observation_gae(given, lam=lam), skip_observation_gae(given, lam=lam))


def test_values_are_needed() -> None:
    given = dataclasses.replace(batch([[1, 0, 1]]), values=None)
    with pytest.raises(ValueError, match="needs values"):
        step_through_observation_gae(given)
