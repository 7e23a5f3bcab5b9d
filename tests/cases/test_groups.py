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
from simulator.lab.modular_addition import ModularAddition, answered, right_answers
from simulator.lab.run import learn
from simulator.lab.snapshots import Snapshots
from simulator.world.lengths import LogNormal
from tests.algorithms.make import T64, bandit, batch, rows


def close(got: torch.Tensor, wanted: list[float], atol: float = 1e-6) -> None:
    torch.testing.assert_close(got.flatten(), torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=0)


def test_one_sample_a_prompt_is_no_nan():
    """A01: rewards [0.7], G = 1, eps = 1e-6; torch's own deviation of one number is NaN."""
    assert group_standardised(bandit([0.7], [0])).tolist() == [[0.0]]


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
    learn(LearnConfig(pipeline=pipeline, estimator=name), estimator=estimator)


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


def test_a_lost_member_leaves_the_others_their_own_baseline():
    """A07: A = [1, 0, 1] of four, B = [0, 0, 0, 1]; by position B's first would be A's fourth."""
    ids, rewards = [7, 7, 7, 2, 2, 2, 2], [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    wanted = [0.3333, -0.6667, 0.3333, -0.25, -0.25, -0.25, 0.75]
    close(group_centred(bandit(rewards, ids)), wanted, atol=5e-5)
    order = [6, 1, 3, 0, 5, 2, 4]
    shuffled = bandit([rewards[i] for i in order], [ids[i] for i in order])
    close(group_centred(shuffled), [wanted[i] for i in order], atol=5e-5)
    text = torch.full((7, 1), 3)
    same_text = dataclasses.replace(bandit(rewards, ids), token_ids=text, prompt_ids=text[:, 0])
    close(group_centred(same_text), wanted, atol=5e-5)


def test_an_easy_prompt_beside_a_rich_one():
    """A08: A = [1, 1, 0, 0], B = [10, 10, 0, 0]; over the batch A's successes count as failures."""
    rewards = [1.0, 1.0, 0.0, 0.0, 10.0, 10.0, 0.0, 0.0]
    by_prompt = bandit(rewards, [0] * 4 + [1] * 4)
    close(group_standardised(by_prompt), [0.866, 0.866, -0.866, -0.866] * 2, atol=5e-5)
    over_batch = group_standardised(bandit(rewards, [0] * 8)).flatten()
    close(over_batch[:5], [-0.389, -0.389, -0.612, -0.612, 1.612], atol=6e-4)


@pytest.mark.parametrize(("size", "wanted"), [(2, 0.7024), (4, 0.449), (8, 0.2007), (16, 0.0403)])
def test_how_many_groups_have_no_signal(size: int, wanted: float):
    """A46: p = .1819; p^G + (1 - p)^G of the groups agree, of answers sampled by the simulator."""
    p, modulus, groups = 0.1819, 10, 4000
    assert p**size + (1 - p) ** size == pytest.approx(wanted, abs=5e-5)
    says = torch.full((modulus**2, modulus), (1 - p) / (modulus - 1)).log()
    says.scatter_(1, right_answers(modulus)[:, None], float(np.log(p)))
    engines = Snapshots()
    engines.publish(0, says)
    world, ids = ModularAddition(modulus=modulus, questions=1, seed=0), np.arange(groups * size)
    questions, versions = world.prompts(ids // size), torch.zeros(groups * size, 1, dtype=torch.long)
    sampled = engines.sample(questions, versions, world.uniforms(ids))
    rolled = answered(questions, sampled, versions, torch.from_numpy(ids // size), modulus=modulus)
    kept = len(drop_uniform_groups_in_parts(rolled, size * 100)) / size
    error = (wanted * (1 - wanted) / groups) ** 0.5
    assert 1 - kept / groups == pytest.approx(wanted, abs=4 * error)
    flat = (group_standardised(rolled) == 0).all(-1).double().mean().item()
    assert flat == pytest.approx(1 - kept / groups, abs=1e-12)


def drop_uniform_groups_in_parts(rolled, rollouts: int) -> torch.Tensor:
    """Ids of what is left; the filter compares every pair, so whole groups at a time."""
    parts = [rolled.rows(slice(i, i + rollouts)) for i in range(0, len(rolled.group_ids), rollouts)]
    return torch.cat([drop_uniform_groups(part).group_ids for part in parts])


def test_the_three_divisors_of_whitening_are_not_mixed_up():
    """A41: ranks [1, 2, 3, 4] and [10, 20], a single 5.0, [1, 2, 3, pad, pad], an empty shard."""
    ranks = [rows([1.0, 2.0, 3.0, 4.0]), rows([10.0, 20.0]), torch.zeros(0, 2, dtype=T64)]
    masks = [torch.ones_like(x, dtype=torch.bool) for x in ranks]
    total = torch.stack([moments(x, m) for x, m in zip(ranks, masks, strict=True)]).sum(0)
    assert (total[1] / total[0]).item() == pytest.approx(6.66667, abs=5e-6)
    got = torch.cat([whiten(x, m, total=total).flatten() for x, m in zip(ranks, masks, strict=True)])
    close(got, [-0.78084, -0.64304, -0.50525, -0.36745, 0.45932, 1.83726], atol=6e-6)
    alone = [whiten(x, m, total=moments(x, m)) for x, m in zip(ranks[:2], masks[:2], strict=True)]
    close(alone[0][0, [0, 3]], [-1.1619, 1.1619], atol=5e-5)
    close(alone[1], [-0.7071, 0.7071], atol=5e-5)
    one = batch([[1]], rewards=rows([5.0]))
    lone = moments(one.rewards, one.action_mask)
    assert whiten(one.rewards, one.action_mask, total=lone).tolist() == [[5.0]]
    padded = batch([[1, 1, 1, 0, 0]], rewards=rows([1.0, 2.0, 3.0, 0.0, 0.0]))
    count, summed, _ = moments(padded.rewards, padded.action_mask).tolist()
    assert summed / count == 2.0
