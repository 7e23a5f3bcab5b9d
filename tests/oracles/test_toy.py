"""SAO learns to copy: four prompts, three-token targets, vocabulary four, tables for policy and critic.

A world that a public port uses too: after 150 updates the last ten batches earn more than .8, on fresh
data (nothing masked) and on data three updates old (something masked).
"""

import dataclasses
from collections import deque

import pytest
import torch
from torch import Tensor

from algorithms.critic import fit, value_loss
from algorithms.diagnostics import gradient_flow
from algorithms.likelihood import token_log_probs
from algorithms.rollout import Batch
from algorithms.sao import sao

PROMPTS, LENGTH, VOCABULARY, ROLLOUTS = 4, 3, 4, 16
TARGETS = torch.tensor([[0, 1, 2], [3, 2, 1], [1, 1, 3], [2, 0, 0]])


def sample(logits: Tensor, version: int, generator: torch.Generator) -> Batch:
    """Sixteen single rollouts of a stale policy; the reward is the share of right tokens."""
    prompts = torch.arange(ROLLOUTS) % PROMPTS
    rows = logits[prompts]
    tokens = torch.multinomial(rows.softmax(-1).flatten(0, 1), 1, generator=generator).view(ROLLOUTS, LENGTH)
    rewards = torch.zeros(ROLLOUTS, LENGTH)
    rewards[:, -1] = (tokens == TARGETS[prompts]).float().mean(-1)
    unscored = Batch(
        token_ids=tokens,
        action_mask=torch.ones(ROLLOUTS, LENGTH, dtype=torch.bool),
        behaviour_log_probs=torch.zeros(ROLLOUTS, LENGTH),
        policy_versions=torch.full((ROLLOUTS, LENGTH), version),
        rewards=rewards,
        prompt_ids=prompts,
        group_ids=torch.arange(ROLLOUTS),
        truncated=torch.zeros(ROLLOUTS, dtype=torch.bool),
        temperature=torch.ones(ROLLOUTS),
    )
    return dataclasses.replace(unscored, behaviour_log_probs=token_log_probs(rows, unscored))


def train(lag: int, seed: int, updates: int = 150) -> tuple[list[float], float, int]:
    """Mean rewards by update, the largest masked share, and the critic's updates."""
    generator = torch.Generator().manual_seed(seed)
    estimator = sao()
    recipe = estimator.critic
    assert recipe is not None
    policy = torch.zeros(PROMPTS, LENGTH, VOCABULARY, requires_grad=True)
    critic = torch.zeros(PROMPTS, LENGTH, requires_grad=True)
    policy_steps = torch.optim.Adam([policy], lr=0.1)
    critic_steps = torch.optim.Adam([critic], lr=0.1)
    past = deque([policy.detach().clone()], maxlen=lag + 1)
    rewards, masked, fits = [], 0.0, 0
    for update in range(updates):
        batch = sample(past[0], update - len(past) + 1, generator)
        assert batch.lag(update).max() <= lag

        def predict(batch: Batch = batch) -> Tensor:
            return critic[batch.prompt_ids]

        targets = recipe.targets(dataclasses.replace(batch, values=predict()))

        def step(batch: Batch = batch, targets: Tensor = targets) -> None:
            nonlocal fits
            mask = batch.action_mask
            critic_steps.zero_grad()
            value_loss(predict(batch), targets, mask, mask.sum()).backward()
            critic_steps.step()
            fits += 1

        batch = dataclasses.replace(batch, values=fit(recipe, predict, step))
        log_probs = token_log_probs(policy[batch.prompt_ids], batch)
        log_probs.retain_grad()
        advantages, total = estimator.advantage(batch), estimator.total(batch)
        policy_steps.zero_grad()
        estimator.loss(log_probs, batch, advantages=advantages, total=total).backward()
        if recipe.policy_trains(update):
            policy_steps.step()
        surrogate = estimator.surrogate(log_probs, batch, advantages)
        assert log_probs.grad is not None
        flow = gradient_flow(surrogate, log_probs.grad, advantages, batch.action_mask)
        masked = max(masked, flow.masked)
        past.append(policy.detach().clone())
        rewards.append(batch.returns.mean().item())
    return rewards, masked, fits


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("lag", [0, 3])
def test_sao_learns_the_copying_toy(lag: int, seed: int):
    rewards, masked, fits = train(lag, seed)
    assert sum(rewards[:5]) / 5 < 0.5  # chance is a quarter
    assert sum(rewards[-10:]) / 10 > 0.8
    assert (masked > 0) is (lag > 0)
    assert fits == 2 * len(rewards)
