"""Advantages and loss aggregation of verl 0.9.1, in float64. https://pypi.org/project/verl/.

Measured: 4e-16 at most. But verl adds 1e-8 to counts and under roots where we add nothing or add it beside:
what is whitened differs by 6e-9, what is averaged over each rollout first by 8e-9.
"""

import dataclasses
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from algorithms.advantage import group_centred, group_standardised, leave_one_out, whitened
from algorithms.aggregate import Aggregate, constant, sequence_mean, token_mean
from algorithms.gae import skip_observation_gae, value_targets
from algorithms.reinforce_pp import reinforce_pp, reinforce_pp_baseline
from algorithms.rollout import Batch
from tests.algorithms.make import bandit
from tests.laws.compositions import policy_near
from tests.oracles.peers import paired, peer

pytestmark = pytest.mark.oracles
algos = peer("verl.trainer.ppo.core_algos")
CONFIG = SimpleNamespace(gamma=1.0)


def theirs(name: str, batch: Batch, **options) -> Tensor:
    return algos.get_adv_estimator_fn(name)(
        token_level_rewards=batch.rewards.clone(),
        response_mask=batch.action_mask.double(),
        index=batch.group_ids.numpy(),
        **options,
    )[0]


def close(got: Tensor, wanted: Tensor, tolerance: float = 1e-13) -> None:
    torch.testing.assert_close(got, wanted.where(got != 0, 0.0), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(8))
def test_group_advantages(seed: int):
    batch = paired(seed)
    close(group_standardised(batch), theirs("grpo", batch))
    close(group_centred(batch), theirs("grpo", batch, norm_adv_by_std_in_grpo=False))
    close(leave_one_out(batch), theirs("rloo", batch))


def test_a_rollout_without_a_token_of_its_own_is_a_peer_at_theirs():
    # Its reward is zero there, and moves the others' baseline. Ours leaves it out: the others agree.
    batch = bandit([1.0, 1.0, 0.0], [0, 0, 0])
    batch = dataclasses.replace(batch, action_mask=torch.tensor([[True], [True], [False]]))
    assert group_centred(batch).abs().max() == 0.0
    wanted = theirs("grpo", batch, norm_adv_by_std_in_grpo=False)
    torch.testing.assert_close(wanted[:2, 0], torch.full((2,), 1 / 3, dtype=torch.float64))


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_a_rollout_without_a_peer_keeps_its_raw_reward_at_theirs(name: str):
    # Ours is zero: there is nothing to compare it with.
    batch = bandit([5.0, 1.0, 2.0], [0, 1, 1])
    ours = {"grpo": group_standardised, "rloo": leave_one_out}[name](batch)
    wanted = theirs(name, batch)
    close(ours[1:], wanted[1:])
    assert ours[0].item() == 0.0
    assert wanted[0].item() == pytest.approx(5.0, rel=1e-5)


def test_a_group_that_agrees():
    # Zero at both, for rewards whose mean is exact.
    batch = bandit([1.0, 1.0, 1.0, 0.5, 0.5], [0, 0, 0, 1, 1])
    assert group_standardised(batch).abs().max() == 0 == theirs("grpo", batch).abs().max()


@pytest.mark.parametrize("seed", range(8))
def test_reinforce_plus_plus(seed: int):
    batch = paired(seed)
    close(reinforce_pp().advantage(batch), theirs("reinforce_plus_plus", batch, config=CONFIG), 2e-8)
    close(reinforce_pp_baseline().advantage(batch), theirs("reinforce_plus_plus_baseline", batch), 2e-8)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.99, 0.95), (0.9, 0.0)])
def test_gae_comes_back_whitened(seed: int, gamma: float, lam: float):
    # Observations are skipped at both. verl knows no bootstrap after a truncated rollout.
    batch = paired(seed)
    mask = batch.action_mask
    advantages, returns = algos.compute_gae_advantage_return(
        batch.rewards, batch.values, mask.double(), gamma, lam
    )
    ours = partial(skip_observation_gae, gamma=gamma, lam=lam, bootstrap_truncated=False)
    close(whitened(ours)(batch), advantages.where(mask, 0.0), 2e-8)
    targets = value_targets(batch, gamma=gamma, lam_critic=lam, bootstrap_truncated=False)
    close(targets, returns.where(mask, 0.0))


AGGREGATES: dict[str, tuple[Aggregate, dict[str, float]]] = {
    "token-mean": (token_mean, {}),
    "seq-mean-token-mean": (sequence_mean, {}),
    "seq-mean-token-sum": (constant(1), {}),
    "seq-mean-token-sum-norm": (constant(6), {}),
    "seq-mean-token-sum-norm, L": (constant(11), {"loss_scale_factor": 11}),
}


@pytest.mark.parametrize("mode", AGGREGATES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("empty_row", [False, True])
def test_aggregation(mode: str, seed: int, empty_row: bool):
    aggregate, options = AGGREGATES[mode]
    batch = paired(seed, empty_row=empty_row)
    mask, name = batch.action_mask, mode.partition(",")[0]
    terms = policy_near(batch, 1.0, seed)
    total = aggregate.count(mask)
    wanted = algos.agg_loss(terms, mask.double(), name, **options)
    torch.testing.assert_close(aggregate.reduce(terms, mask, total), wanted, rtol=2e-8, atol=2e-8)
    # Two micro-batches and the count of both: the sum is the whole at both.
    counts = {"batch_num_tokens": int(mask.sum()), "global_batch_size": int(mask.any(-1).sum())}
    parts = [
        algos.agg_loss(terms[rows], mask[rows].double(), name, **counts, **options)
        for rows in (slice(0, 3), slice(3, 7))
    ]
    ours = [aggregate.reduce(terms[rows], mask[rows], total) for rows in (slice(0, 3), slice(3, 7))]
    for got, part in zip(ours, parts, strict=True):
        torch.testing.assert_close(got, part, rtol=2e-8, atol=2e-8)
    torch.testing.assert_close(parts[0] + parts[1], wanted, rtol=1e-12, atol=1e-12)


def test_a_token_sum_is_the_token_mean_times_the_tokens():
    # No aggregate of ours: its size would depend on the batch.
    batch = paired(0)
    mask, terms = batch.action_mask, policy_near(batch, 1.0)
    mean = token_mean.reduce(terms, mask, token_mean.count(mask))
    torch.testing.assert_close(mean * mask.sum(), algos.agg_loss(terms, mask.double(), "token-sum"))


def test_a_fixed_length_is_the_padded_one_unless_given():
    # Dr. GRPO's divisor changes with the padding at theirs, never at ours.
    batch = paired(0)
    mask, terms = batch.action_mask, policy_near(batch, 1.0)
    wider = torch.nn.functional.pad(mask, (0, 6))
    short = algos.agg_loss(terms, mask.double(), "seq-mean-token-sum-norm")
    long = algos.agg_loss(torch.nn.functional.pad(terms, (0, 6)), wider.double(), "seq-mean-token-sum-norm")
    torch.testing.assert_close(short, 2 * long)
