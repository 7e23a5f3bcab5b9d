"""What does it cost an advantage to step through observations, where a critic was never fitted?

The player is scripted: right but for slips, each turn with probability 0.1. So the value of every state and
the advantage of every token are known exactly, and estimates are held against them. Observations are nine
tokens long, and two thirds of a trajectory, as is usual for agents.

Found here, with a critic that 60 batches trained (it knows depth and position, and does not see slips):

- At one lambda, SAO's for the action tokens, stepping through every token is a shorter horizon in disguise:
  lambda is taken to the power of the positions. The correlation with the true advantages falls from 0.51 to
  0.46, though the error shrinks (0.35 to 0.26): less of the reward arrives, and its noise with it.
- With SAO's lambda for as many tokens as are stepped through, the two agree (0.51 both): what the critic says
  of observations costs nothing here, because it is nearly what it says of the actions after them.
- What it could cost is arithmetic: an error e at all observations adds e (1 - lambda) times the sum of
  lambda^(distance - 1) over those that follow: here 0.39 e on average at the one lambda, 0.18 e at the other.
- With exact values the order turns: the short horizon is the better one, 0.90 against 0.73.
"""

import dataclasses
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.gae import LambdaRule, length_adaptive, skip_observation_gae
from algorithms.rollout import Batch
from simulator.lab.models.gpt import Gpt, Sizes
from simulator.lab.models.gpt_critic import GptCritic
from simulator.lab.tasks.tool_lookup import NODES, SPOKEN, ToolLookup

GAME = ToolLookup(seed=1, most_turns=8, tail=1.0, observation_tokens=9)
SLIP = 0.1
MEASURED = 10**6  # the first id of the rollouts that are measured on; the critic learns from earlier ones


class Played(NamedTuple):
    prompts: Tensor
    batch: Batch
    """`values` are exact, at observations too."""
    advantages: Tensor
    present: Tensor
    """False in padding."""


def played(first: int, count: int, seed: int) -> Played:
    """Right play, but with probability `SLIP` a turn another node, or another value, than the right one.

    A slip shifts all later nodes and the value by what it was off, modulo 16. With k choices to come, each
    off by a uniform non-zero number with probability s, the offset returns to 0 with probability
    1/16 + 15/16 (1 - 16/15 s)^k from 0, and 1/16 - 1/16 (1 - 16/15 s)^k from elsewhere.
    """
    prompts = GAME.prompts(np.arange(first, first + count))
    shown, turns = GAME.demonstration(prompts), GAME.turns(prompts)[:, None]
    rng = torch.Generator().manual_seed(seed)
    turn = torch.arange(GAME.most_turns)
    slips = (torch.rand(count, GAME.most_turns, generator=rng) < SLIP) & (turn < turns)
    by = torch.randint(1, NODES, slips.shape, generator=rng).where(slips, 0)
    after = by.cumsum(-1) % NODES
    before = (after - by) % NODES
    tokens = shown.tokens.view(count, GAME.most_turns, GAME.turn_tokens).clone()
    for column in (SPOKEN - 1, GAME.turn_tokens - 1):
        right = tokens[:, :, column]
        tokens[:, :, column] = right - right % NODES + (right + after) % NODES
    present = torch.arange(GAME.response_tokens) < GAME.said_tokens(prompts)[:, None]
    tokens = tokens.flatten(1).where(present, 0)
    reward = GAME.rewards(prompts, tokens, shown.action_mask)
    choices = (turns - turn).clamp(min=0)
    start, end = _value(before, choices), _value(after, (choices - 1).clamp(min=0))
    spoken = torch.arange(GAME.turn_tokens) < SPOKEN
    values = start[..., None].where(spoken, end[..., None]).flatten(1)
    chosen = torch.arange(GAME.turn_tokens) == SPOKEN - 1
    advantages = (end - start)[..., None].where(chosen, 0.0).flatten(1).where(shown.action_mask, 0.0)
    last = torch.arange(GAME.response_tokens) == GAME.said_tokens(prompts)[:, None] - 1
    names = torch.arange(count)
    batch = Batch(
        token_ids=tokens,
        action_mask=shown.action_mask,
        behaviour_log_probs=torch.zeros(tokens.shape),
        policy_versions=torch.zeros_like(tokens),
        rewards=reward[:, None].where(last, 0.0),
        prompt_ids=names,
        group_ids=names,
        truncated=torch.zeros(count, dtype=torch.bool),
        temperature=torch.ones(count),
        values=values,
    )
    return Played(prompts, batch, advantages, present)


def _value(offset: Tensor, choices: Tensor) -> Tensor:
    kept = (1 - SLIP * NODES / (NODES - 1)) ** choices
    return torch.where(offset == 0, (1 + (NODES - 1) * kept) / NODES, (1 - kept) / NODES)


@cache
def measured() -> Played:
    return played(MEASURED, 800, 0)


@cache
def briefly_trained() -> Tensor:
    """What a small critic says of the measured rollouts after 60 batches of other ones."""
    sizes = Sizes(width=32, heads=2)
    positions = GAME.prompt_tokens + GAME.response_tokens
    policy = Gpt(
        sizes, vocabulary=GAME.vocabulary, positions=positions, generator=torch.Generator().manual_seed(0)
    )
    critic = GptCritic(policy)
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
    for step in range(60):
        prompts, batch, _, _ = played(64 * step, 64, 1 + step)
        error = critic.values(prompts, batch.token_ids) - batch.returns[:, None]
        optimizer.zero_grad()
        (error**2)[batch.action_mask].mean().backward()
        optimizer.step()
    with torch.no_grad():
        return critic.values(measured().prompts, measured().batch.token_ids)


def skipping(values: Tensor, lam: float | LambdaRule) -> Tensor:
    return skip_observation_gae(dataclasses.replace(measured().batch, values=values), lam=lam)


def stepping(values: Tensor, lam: float | LambdaRule) -> Tensor:
    """GAE that takes every token for an action; zero where none is."""
    world = measured()
    every = dataclasses.replace(world.batch, values=values, action_mask=world.present)
    return skip_observation_gae(every, lam=lam).where(world.batch.action_mask, 0.0)


def of_actions(rule: LambdaRule) -> LambdaRule:
    """The lambda that the action tokens alone give, whatever is counted."""
    lam = rule(measured().batch.action_tokens)
    return lambda _: lam


def correlation(estimate: Tensor) -> float:
    """With the true advantages, at nodes and values: no other token has any."""
    columns = torch.arange(GAME.response_tokens) % GAME.turn_tokens == SPOKEN - 1
    there = measured().batch.action_mask & columns
    return torch.corrcoef(torch.stack((estimate[there], measured().advantages[there])))[0, 1].item()


def error(estimate: Tensor) -> float:
    there = measured().batch.action_mask
    return (estimate - measured().advantages)[there].square().mean().sqrt().item()


def test_the_truth_is_true() -> None:
    # The values of start states average the rewards; lambda 1 and exact values average the advantages.
    world = played(0, 20_000, 3)
    assert world.batch.values is not None
    surprise = (world.batch.returns - world.batch.values[:, 0]).double()
    assert abs(surprise.mean().item()) < 4 * surprise.std().item() / 20_000**0.5
    one_step = skip_observation_gae(world.batch, lam=0.0)
    assert torch.allclose(one_step, world.advantages, atol=1e-6)


def test_at_one_lambda_stepping_through_observations_loses_the_signal_and_not_the_error() -> None:
    values, rule = briefly_trained(), length_adaptive(1.5)
    skipped, stepped = skipping(values, rule), stepping(values, of_actions(rule))
    assert correlation(skipped) > correlation(stepped) + 0.03
    assert error(stepped) < error(skipped)


def test_with_a_lambda_of_its_own_length_stepping_through_costs_next_to_nothing() -> None:
    values, rule = briefly_trained(), length_adaptive(1.5)
    assert correlation(stepping(values, rule)) == pytest.approx(correlation(skipping(values, rule)), abs=0.02)


def test_with_exact_values_the_order_turns() -> None:
    values, rule = measured().batch.values, length_adaptive(1.5)
    assert values is not None
    assert correlation(stepping(values, of_actions(rule))) > correlation(skipping(values, rule)) + 0.1


@pytest.mark.parametrize("lam", [0.5, 0.95, 0.99])
def test_an_error_at_observations_leaks_by_its_share_of_the_horizon(lam: float) -> None:
    world = measured()
    assert world.batch.values is not None
    observation = world.present & ~world.batch.action_mask
    wrong = world.batch.values + observation.float()
    leak = stepping(wrong, lam) - stepping(world.batch.values, lam)
    distance = torch.arange(GAME.response_tokens) - torch.arange(GAME.response_tokens)[:, None]
    weight = ((1 - lam) * lam ** (distance.double() - 1)).where(distance > 0, 0.0)
    expected = (observation.double() @ weight.T).where(world.batch.action_mask, 0.0)
    assert torch.allclose(leak.double(), expected, atol=1e-5)
    assert torch.equal(skipping(wrong, lam), skipping(world.batch.values, lam))
