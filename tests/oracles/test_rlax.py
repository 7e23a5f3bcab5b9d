"""V-trace and GAE of an independent library on another array library, in float64. https://pypi.org/project/rlax/.

Largest difference measured: 7e-16, of numbers near one.
"""

import dataclasses

import pytest
import torch
from torch import Tensor

from algorithms.gae import length_adaptive, skip_observation_gae, value_targets
from algorithms.rollout import Batch
from algorithms.vtrace import corrected, vtrace_advantages, vtrace_targets
from tests.oracles.peers import paired, peer

pytestmark = pytest.mark.oracles
jax = peer("jax")
rlax = peer("rlax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
np = peer("numpy")
# Compiled once a length; called bare, each call would compile its loop again.
their_gae = jax.jit(rlax.truncated_generalized_advantage_estimation)
their_vtrace = jax.jit(rlax.vtrace_td_error_and_advantage)

T64 = torch.float64


def array(tensor: Tensor):
    return jax.numpy.asarray(tensor.numpy())


def close(got: Tensor, wanted) -> None:
    # A copy: torch warns of arrays that it may not write to.
    torch.testing.assert_close(got, torch.from_numpy(np.array(wanted)), rtol=1e-12, atol=1e-12)


def row(batch: Batch, i: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rewards, values with what follows the last action, ratios and mask of one rollout's actions."""
    mask = batch.action_mask[i]
    assert batch.values is not None
    assert batch.bootstrap_values is not None
    assert batch.old_log_probs is not None
    after = batch.bootstrap_values[i] if batch.truncated[i] else torch.zeros((), dtype=T64)
    values = torch.cat([batch.values[i][mask], after[None]])
    ratios = (batch.old_log_probs - batch.behaviour_log_probs)[i][mask].exp()
    return batch.rewards[i][mask], values, ratios, mask


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.97, 0.9), (0.9, 0.0)])
def test_gae(seed: int, gamma: float, lam: float):
    batch = paired(seed)
    advantages = skip_observation_gae(batch, gamma=gamma, lam=lam)
    targets = value_targets(batch, gamma=gamma, lam_critic=lam)
    for i in range(len(batch.rewards)):
        rewards, values, _, mask = row(batch, i)
        wanted = their_gae(array(rewards), array(torch.full_like(rewards, gamma)), lam, array(values))
        close(advantages[i][mask], wanted)
        close(targets[i][mask] - values[:-1], wanted)


@pytest.mark.parametrize("seed", range(3))
def test_gae_with_a_lambda_of_each_length(seed: int):
    batch = paired(seed)
    advantages = skip_observation_gae(batch, lam=length_adaptive(1.5))
    for i in range(len(batch.rewards)):
        rewards, values, _, mask = row(batch, i)
        lam = 1 - 1 / (1.5 * int(mask.sum()))
        wanted = their_gae(array(rewards), array(torch.ones_like(rewards)), lam, array(values))
        close(advantages[i][mask], wanted)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mismatch", [0.0, 0.5, 5.0])
@pytest.mark.parametrize(("gamma", "lam", "rho_bar"), [(1.0, 1.0, 1.0), (0.97, 0.9, 1.0), (0.9, 1.0, 3.0)])
def test_vtrace(seed: int, mismatch: float, gamma: float, lam: float, rho_bar: float):
    batch = paired(seed, mismatch=mismatch)
    options = {"gamma": gamma, "lam": lam, "rho_bar": rho_bar}
    targets, advantages = vtrace_targets(batch, **options), vtrace_advantages(batch, **options)
    for i in range(len(batch.rewards)):
        rewards, values, ratios, mask = row(batch, i)
        theirs = their_vtrace(
            array(values[:-1]),
            array(values[1:]),
            array(rewards),
            array(torch.full_like(rewards, gamma)),
            array(ratios),
            lambda_=lam,
            clip_rho_threshold=rho_bar,
            clip_pg_rho_threshold=rho_bar,
        )
        close(targets[i][mask] - values[:-1], theirs.errors)
        # Theirs, and theirs alone, mixes lambda v + (1 - lambda) V into the advantage below lambda = 1.
        if lam == 1.0:
            close(ratios.clamp(max=rho_bar) * advantages[i][mask], theirs.pg_advantage)


@pytest.mark.parametrize("seed", range(3))
def test_vtrace_below_lambda_one_mixes_in_the_value_at_theirs_only(seed: int):
    batch = paired(seed)
    lam, gamma = 0.6, 0.97
    targets, advantages = (f(batch, lam=lam, gamma=gamma) for f in (vtrace_targets, vtrace_advantages))
    for i in range(len(batch.rewards)):
        rewards, values, ratios, mask = row(batch, i)
        theirs = their_vtrace(
            array(values[:-1]), array(values[1:]), array(rewards), array(torch.full_like(rewards, gamma)),
            array(ratios), lambda_=lam,
        )  # fmt: skip
        error_after = torch.cat([(targets[i][mask] - values[:-1])[1:], torch.zeros(1, dtype=T64)])
        mixed = advantages[i][mask] - gamma * (1 - lam) * error_after
        close(ratios.clamp(max=1.0) * mixed, theirs.pg_advantage)


def test_vtrace_with_a_discount_of_each_step():
    g = torch.Generator().manual_seed(0)
    rewards, values, log_rho = (torch.randn(5, 9, generator=g, dtype=T64) for _ in range(3))
    discount = torch.rand(5, 9, generator=g, dtype=T64)
    last = torch.cat([values[:, 1:], torch.randn(5, 1, generator=g, dtype=T64)], dim=1)
    capped = log_rho.exp().clamp(max=1.0)
    ours = corrected(rewards, values, last, capped, 0.8 * capped, discount)
    for i in range(5):
        theirs = rlax.vtrace(
            *(array(x[i]) for x in (values, last, rewards, discount, log_rho.exp())), lambda_=0.8
        )
        close(ours.errors[i], theirs)


def test_padding_and_observations_are_nothing():
    # What `row` leaves out for them holds nonsense for us.
    batch = paired(0)
    spoilt = {
        name: getattr(batch, name).where(batch.action_mask, float("nan"))
        for name in ("rewards", "values", "old_log_probs", "behaviour_log_probs")
    }
    got = vtrace_advantages(dataclasses.replace(batch, **spoilt))
    torch.testing.assert_close(got, vtrace_advantages(batch), rtol=0.0, atol=0.0)
