import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from simulator.lab.models.pairs import PairPolicy
from simulator.lab.models.tables import TableVersions, inverted


def policies(n: int) -> list[PairPolicy]:
    generator = torch.Generator().manual_seed(0)
    return [PairPolicy(modulus=10, hidden=16, generator=generator) for _ in range(n)]


def contexts(rows: int, width: int) -> Tensor:
    return torch.randint(0, 100, (rows, width), generator=torch.Generator().manual_seed(1))


def held(*weights: PairPolicy, apart: int = 1) -> TableVersions:
    versions = TableVersions()
    for i, policy in enumerate(weights):
        versions.publish(apart * i, policy.snapshot())
    return versions


def test_each_token_is_scored_by_its_own_version() -> None:
    """The recorded behaviour log-probs are those of the weights that sampled, to float32 rounding."""
    weights = policies(70)  # more than the first allocation holds
    versions, asked = held(*weights, apart=4), contexts(32, 5)
    which = 4 * torch.randint(0, 70, (32, 5), generator=torch.Generator().manual_seed(2))
    says = versions.log_probs(asked, which)
    for i, policy in enumerate(weights):
        mine = which == 4 * i
        torch.testing.assert_close(says[mine], policy.snapshot().table[asked][mine], rtol=0, atol=1e-5)


def test_answers_follow_the_distribution() -> None:
    (policy,) = policies(1)
    n = 20_000
    says = held(policy).log_probs(torch.full((n, 1), 34), torch.zeros(n, 1, dtype=torch.long))
    uniforms = torch.from_numpy(np.random.default_rng(4).random((n, 1), dtype=np.float32))
    counts = torch.bincount(inverted(says, uniforms).flatten(), minlength=10).numpy()
    expected = policy.snapshot().table[34].exp().double().numpy()
    assert stats.chisquare(counts, n * expected / expected.sum()).pvalue > 1e-3


def test_the_ends_of_the_unit_interval_are_answers_too() -> None:
    says = held(*policies(1)).log_probs(contexts(1, 2), torch.zeros(1, 2, dtype=torch.long))
    assert inverted(says, torch.tensor([[0.0, 1 - 2**-24]])).tolist() == [[0, 9]]


def test_a_version_that_no_engine_held_is_refused() -> None:
    versions = TableVersions()
    (policy,) = policies(1)
    versions.publish(8, policy.snapshot())
    with pytest.raises(ValueError, match=r"version \[3\]"):
        versions.log_probs(contexts(1, 1), torch.tensor([[3]]))
    with pytest.raises(ValueError, match="version 8 is not newer than 8"):
        versions.publish(8, policy.snapshot())


def test_what_is_forgotten_is_gone_and_what_is_kept_is_as_it_was() -> None:
    weights = policies(200)
    versions = held(*weights)
    versions.forget(150)
    says = versions.log_probs(torch.tensor([[34]]), torch.tensor([[160]]))
    assert torch.equal(says[0, 0], weights[160].snapshot().table[34])
    with pytest.raises(ValueError, match=r"version \[149\]"):
        versions.log_probs(torch.tensor([[34]]), torch.tensor([[149]]))
    versions.publish(200, weights[0].snapshot())
    says = versions.log_probs(torch.tensor([[34]]), torch.tensor([[200]]))
    assert torch.equal(says[0, 0], weights[0].snapshot().table[34])


def test_a_state_that_is_loaded_says_the_same() -> None:
    weights = policies(5)
    versions, again = held(*weights, apart=3), TableVersions()
    again.load_state(versions.state())
    which = torch.tensor([[0, 3, 6, 9, 12]])
    assert torch.equal(again.log_probs(contexts(1, 5), which), versions.log_probs(contexts(1, 5), which))
    again.publish(15, weights[0].snapshot())
