"""Reported faults of group baselines, each with the numbers that are right."""

import dataclasses

import numpy as np
import pytest
import torch

from algorithms.advantage import (
    group_centred,
    group_standardised,
    leave_one_out,
    moments,
    population_std,
    reward_minus_value,
    sample_std,
    whiten,
    whitened,
)
from algorithms.dapo import drop_uniform_groups
from algorithms.estimator import Estimator
from algorithms.grpo import grpo_behaviour_clip
from algorithms.sao import sao
from simulator.config import PipelineConfig
from simulator.lab.config import LearnConfig
from simulator.lab.methods import Method
from simulator.lab.models.tables import TableSpeaker
from simulator.lab.run import learn
from simulator.lab.tasks.modular_addition import ModularAddition, right_answers
from simulator.world.lengths import LogNormal
from tests.algorithms.make import bandit, rows
from tests.simulator.lab.worlds import traffic


def close(got: torch.Tensor, wanted: list[float], atol: float = 1e-6) -> None:
    torch.testing.assert_close(got.flatten(), torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=0)


def test_single_rollouts_learn_from_the_batch_or_from_a_critic():
    """A02: four prompts, one rollout each, r = [1, 0, 1, 0]; V = [.25, .25, .75, .75]."""
    singles = bandit([1.0, 0.0, 1.0, 0.0], [0, 1, 2, 3])
    assert group_centred(singles).flatten().tolist() == [0.0] * 4
    whole = dataclasses.replace(singles, group_ids=torch.zeros(4, dtype=torch.long))
    close(group_centred(whole, scale=population_std), [1.0, -1.0, 1.0, -1.0], atol=3e-6)
    close(group_centred(whole, scale=sample_std), [0.866025, -0.866025, 0.866025, -0.866025], atol=3e-6)
    mask = singles.action_mask
    close(
        whiten(singles.rewards, mask, total=moments(singles.rewards, mask)),
        [0.866025, -0.866025, 0.866025, -0.866025],
    )
    valued = dataclasses.replace(singles, values=rows([0.25], [0.25], [0.75], [0.75]))
    for advantage in (reward_minus_value, sao().advantage):
        close(advantage(valued), [0.75, -0.25, 0.25, -0.75])


def small(estimator: Estimator, group_size: int) -> None:
    pipeline = PipelineConfig(
        slots=16,
        group_size=group_size,
        rollouts_per_update=16,
        updates_per_batch=1,
        updates=3,
        policy_update_s=0.1,
        lengths=LogNormal(mean_tokens=20, sd_tokens=10),
        **({"critic_updates": 2, "critic_update_s": 0.1} if group_size == 1 else {}),
    )
    name = "sao" if group_size == 1 else "grpo"
    learn(LearnConfig(pipeline=pipeline, estimator=name), method=Method(estimator=estimator))


def test_a_run_without_any_advantage_says_so():
    """A02: one rollout a prompt under a group baseline trains on nothing; the run must not be silent."""
    small(grpo_behaviour_clip(), group_size=4)
    with pytest.warns(UserWarning, match="no advantage in any of 3 updates"):
        small(grpo_behaviour_clip(), group_size=1)


def test_without_a_peer_leave_one_out_is_zero_for_a_group_and_for_a_batch():
    """A03: x = [[5.0]]; 5.0 is the fault."""
    as_group, as_batch = bandit([5.0], [0]), bandit([5.0, 3.0], [0, 1])
    assert leave_one_out(as_group).tolist() == [[0.0]]
    whole_batch = dataclasses.replace(as_group, group_ids=torch.zeros(1, dtype=torch.long))
    assert leave_one_out(whole_batch).tolist() == [[0.0]]
    assert whitened(leave_one_out)(as_group).tolist() == [[0.0]]
    assert leave_one_out(as_batch).flatten().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("size", "wanted"), [(2, 0.7024), (4, 0.449), (8, 0.2007), (16, 0.0403)])
def test_how_many_groups_have_no_signal(size: int, wanted: float):
    """A46: p = .1819; p^G + (1 - p)^G of the groups agree, of answers sampled by the simulator."""
    p, modulus, groups = 0.1819, 10, 4000
    assert p**size + (1 - p) ** size == pytest.approx(wanted, abs=5e-5)
    says = torch.full((modulus**2, modulus), (1 - p) / (modulus - 1)).log()
    says.scatter_(1, right_answers(modulus)[:, None], float(np.log(p)))
    world = ModularAddition(modulus=modulus, questions=1, hidden=1, seed=0)
    engines = world.sampler()
    engines.publish(0, TableSpeaker(says, world.policy().contexts))
    rolled = engines.sample(traffic(groups * size, group_size=size)).batch
    kept = len(drop_uniform_groups_in_parts(rolled, size * 100)) / size
    error = (wanted * (1 - wanted) / groups) ** 0.5
    assert 1 - kept / groups == pytest.approx(wanted, abs=4 * error)
    flat = (group_standardised(rolled) == 0).all(-1).double().mean().item()
    assert flat == pytest.approx(1 - kept / groups, abs=1e-12)


def drop_uniform_groups_in_parts(rolled, rollouts: int) -> torch.Tensor:
    """Ids of what is left; the filter compares every pair, so whole groups at a time."""
    parts = [rolled.rows(slice(i, i + rollouts)) for i in range(0, len(rolled.group_ids), rollouts)]
    return torch.cat([drop_uniform_groups(part).group_ids for part in parts])
