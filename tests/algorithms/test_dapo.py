import dataclasses

import pytest
import torch

from algorithms.dapo import dapo, drop_uniform_groups, overlong_shaping, with_overlong_penalty
from algorithms.dr_grpo import dr_grpo
from algorithms.ratio import per_token
from algorithms.reinforce_pp import reinforce_pp, reinforce_pp_baseline, rewards_to_come
from algorithms.rloo import rloo
from tests.algorithms.make import bandit, batch, rows, terminal

T64 = torch.float64


def close(got: torch.Tensor, wanted: list[float], atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=1e-12)


def test_a43_overlong_shaping():
    lengths = torch.tensor([6, 7, 8, 10, 11])
    close(overlong_shaping(lengths, cap=10, cache=4), [0.0, -0.25, -0.5, -1.0, -1.0])
    close(overlong_shaping(lengths, cap=10, cache=4, factor=0.5), [0.0, -0.125, -0.25, -0.5, -0.5])
    paper = torch.tensor([16384, 18432, 20480, 20481])
    close(overlong_shaping(paper, cap=20480, cache=4096), [0.0, -0.5, -1.0, -1.0])


def test_a43_a_penalty_reaches_the_reward_and_the_advantage():
    mask = torch.tensor([[1, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
    record = batch(mask, rewards=terminal(mask, [1.0, 1.0]), group_ids=torch.tensor([5, 5]))
    assert (dapo().advantage(record) == 0).all()
    # Two and four action tokens of at most four: penalties 0 and -1, on the last action token.
    shaped = with_overlong_penalty(record, cap=4, cache=2)
    close(shaped.returns, [1.0, 0.0])
    assert shaped.rewards[1].tolist() == [0.0, 0.0, 0.0, 0.0]
    close(with_overlong_penalty(record, cap=4, cache=3, factor=3.0).returns, [0.0, -2.0])
    assert dapo().advantage(shaped)[0, 0] > 0


def test_refusals():
    lengths = torch.tensor([1])
    with pytest.raises(ValueError, match=r"cache must lie in \[1, cap = 10\], got 11"):
        overlong_shaping(lengths, cap=10, cache=11)
    with pytest.raises(ValueError, match="factor must not be negative, got -1"):
        overlong_shaping(lengths, cap=10, cache=4, factor=-1.0)
    with pytest.raises(ValueError, match="tokens must be positive"):
        dr_grpo(tokens=0.0)


def test_dynamic_sampling_drops_groups_without_signal_and_nothing_else():
    record = bandit([1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0], [2, 2, 7, 7, 4, 4, 9])
    kept = drop_uniform_groups(record)
    assert kept.group_ids.tolist() == [7, 7]
    assert kept.returns.tolist() == [0.0, 1.0]
    shuffled = drop_uniform_groups(record.rows(torch.tensor([3, 0, 6, 2, 5, 1, 4])))
    assert shuffled.returns.tolist() == [1.0, 0.0]
    assert len(drop_uniform_groups(bandit([1.0, 1.0], [0, 0])).group_ids) == 0


def test_dynamic_sampling_leaves_the_gradient_of_the_rest_up_to_the_divisor():
    record = bandit([1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], old_log_probs=torch.zeros(4, 1, dtype=T64))
    kept = drop_uniform_groups(record)
    for rolled, wanted in ((record, 4), (kept, 2)):
        new = torch.zeros(len(rolled.group_ids), 1, dtype=T64, requires_grad=True)
        advantages = dapo().advantage(rolled)
        dapo().loss(new, rolled, advantages=advantages, total=dapo().total(rolled)).backward()
        assert new.grad is not None
        torch.testing.assert_close(new.grad[:2] * wanted, -advantages[:2])


def test_a10_clip_higher_binds_above():
    record = batch([[1, 1]], behaviour_log_probs=-rows([1.25, 0.75]).log(), old_log_probs=None)
    new = torch.zeros(1, 2, dtype=T64, requires_grad=True)
    dapo(log_ratio=per_token).surrogate(new, record, rows([1.0, -1.0])).sum().backward()
    assert new.grad is not None
    close(new.grad[0], [1.25, 0.0])


def test_a27_weight_of_a_token_under_each_mean():
    mask = torch.tensor([[1] * 2 + [0] * 6, [1] * 8], dtype=torch.bool)
    zeros = torch.zeros(2, 8, dtype=T64)
    record = batch(mask, old_log_probs=zeros)
    for estimator, short, long in ((dapo(), 0.1, 0.1), (dr_grpo(tokens=10), 0.05, 0.05), (rloo(), 0.5, 0.5)):
        new = zeros.clone().requires_grad_()
        loss = estimator.loss(new, record, advantages=torch.ones_like(zeros), total=estimator.total(record))
        loss.backward()
        assert new.grad is not None
        assert new.grad[0, 0].item() == pytest.approx(-short)
        assert new.grad[1, 7].item() == pytest.approx(-long)


def test_rloo_by_hand():
    record = bandit([6.0, 3.0, 9.0, 12.0, 1.0], [0, 0, 1, 1, 2])
    close(rloo().advantage(record)[:, 0], [3.0, -3.0, -3.0, 3.0, 0.0])
    new = torch.full((5, 1), -1.0, dtype=T64, requires_grad=True)
    rloo().loss(new, record, advantages=rloo().advantage(record), total=rloo().total(record)).backward()
    assert new.grad is not None
    close(new.grad[:, 0], [-0.6, 0.6, 0.6, -0.6, 0.0])


def test_dr_grpo_has_no_deviation():
    close(dr_grpo().advantage(bandit([10.0, 0.0], [0, 0]))[:, 0], [5.0, -5.0])


def test_a08_batch_whitening_forgets_the_prompt_and_a_group_baseline_does_not():
    record = bandit([1.0, 1.0, 0.0, 0.0, 10.0, 10.0, 0.0, 0.0], [0, 0, 0, 0, 1, 1, 1, 1])
    forgetful = reinforce_pp().advantage(record)[:, 0]
    close(forgetful[:5], [-0.389, -0.389, -0.612, -0.612, 1.612], atol=2e-3)
    fair = reinforce_pp_baseline().advantage(record)[:, 0]
    centred = torch.tensor([0.5, 0.5, -0.5, -0.5, 5.0, 5.0, -5.0, -5.0], dtype=T64)
    close(fair, (centred / centred.std()).tolist(), atol=1e-7)
    assert (fair[:2] > 0).all()


def test_rewards_to_come_skip_observations():
    record = batch([[1, 0, 1]], rewards=rows([1.0, 0.0, 2.0]))
    record = dataclasses.replace(record, rewards=record.rewards.where(record.action_mask, float("nan")))
    close(rewards_to_come(record)[0], [3.0, 0.0, 2.0])


def test_dynamic_sampling_takes_a_rollout_without_an_action_for_no_answer():
    record = bandit([1.0, 1.0, 0.0, 1.0, 0.0], [2, 2, 2, 7, 7])
    mask = torch.tensor([[True], [True], [False], [True], [True]])
    assert drop_uniform_groups(dataclasses.replace(record, action_mask=mask)).group_ids.tolist() == [7, 7]
