import numpy as np
import pytest
import torch
from scipy import stats

from simulator.lab.modular_addition import Questions
from simulator.lab.networks import TokenPolicy
from simulator.lab.snapshots import Snapshots


def policies(n: int) -> list[TokenPolicy]:
    generator = torch.Generator().manual_seed(0)
    return [TokenPolicy(modulus=10, hidden=16, generator=generator) for _ in range(n)]


def questions(rows: int, width: int) -> Questions:
    generator = torch.Generator().manual_seed(1)
    return Questions(*(torch.randint(0, 10, (rows, width), generator=generator) for _ in range(2)))


def test_each_token_is_scored_by_its_own_version() -> None:
    """The recorded behaviour log-probs are those of the weights that sampled, to float32 rounding."""
    snapshots, weights = Snapshots(), policies(70)  # more than the first allocation holds
    for i, policy in enumerate(weights):
        snapshots.publish(4 * i, policy.snapshot())
    asked = questions(32, 5)
    versions = 4 * torch.randint(0, 70, (32, 5), generator=torch.Generator().manual_seed(2))
    sampled = snapshots.sample(asked, versions, torch.rand(32, 5, generator=torch.Generator().manual_seed(3)))
    for i, policy in enumerate(weights):
        alone = policy.snapshot()[10 * asked.a + asked.b]
        chosen = alone.gather(-1, sampled.answers[..., None]).squeeze(-1)
        mine = versions == 4 * i
        torch.testing.assert_close(sampled.log_probs[mine], chosen[mine], rtol=0, atol=1e-5)


def test_answers_follow_the_distribution() -> None:
    snapshots, (policy,) = Snapshots(), policies(1)
    snapshots.publish(0, policy.snapshot())
    n = 20_000
    asked = Questions(torch.full((n, 1), 3), torch.full((n, 1), 4))
    uniforms = torch.from_numpy(np.random.default_rng(4).random((n, 1), dtype=np.float32))
    drawn = snapshots.sample(asked, torch.zeros(n, 1, dtype=torch.long), uniforms).answers
    counts = torch.bincount(drawn.flatten(), minlength=10).numpy()
    expected = policy.snapshot()[34].exp().double().numpy()
    assert stats.chisquare(counts, n * expected / expected.sum()).pvalue > 1e-3


def test_the_ends_of_the_unit_interval_are_answers_too() -> None:
    snapshots, (policy,) = Snapshots(), policies(1)
    snapshots.publish(0, policy.snapshot())
    asked = questions(1, 2)
    ends = torch.tensor([[0.0, 1 - 2**-24]])
    sampled = snapshots.sample(asked, torch.zeros(1, 2, dtype=torch.long), ends)
    assert sampled.answers.tolist() == [[0, 9]]
    assert torch.isfinite(sampled.log_probs).all()


def test_a_version_that_no_engine_held_is_refused() -> None:
    snapshots, (policy,) = Snapshots(), policies(1)
    snapshots.publish(8, policy.snapshot())
    with pytest.raises(ValueError, match=r"version \[3\]"):
        snapshots.log_probs(questions(1, 1), torch.tensor([[3]]))
    with pytest.raises(ValueError, match="version 8 is not newer than 8"):
        snapshots.publish(8, policy.snapshot())
