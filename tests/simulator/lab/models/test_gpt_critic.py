"""The value network: what it starts from, and what it must not see."""

from __future__ import annotations

import torch

from algorithms.critic import attention_modules, freeze
from simulator.lab.models.gpt_critic import GptCritic
from tests.simulator.lab.models.small import Sums, asked, network

GAME = Sums()


def responses(rows: int, length: int) -> torch.Tensor:
    return torch.randint(0, 8, (rows, length), generator=torch.Generator().manual_seed(1))


def critic() -> GptCritic:
    made = GptCritic(network())
    with torch.no_grad():
        made.head.copy_(torch.randn(made.head.shape, generator=torch.Generator().manual_seed(2)))
    return made


def test_it_starts_from_the_policys_weights_with_values_of_zero():
    policy = network()
    made = GptCritic(policy)
    prompts, _ = asked(4)
    assert (made.values(prompts, responses(4, 6)) == 0).all()
    of_policy = dict(policy.named_parameters())
    for name, parameter in made.named_parameters():
        if not name.startswith("head"):
            assert torch.equal(parameter, of_policy[name])
            assert parameter.data_ptr() != of_policy[name].data_ptr()


def test_a_value_sees_nothing_of_its_token_or_of_later_ones():
    made, tokens = critic(), responses(4, 6)
    prompts, _ = asked(4)
    before = made.values(prompts, tokens)
    for t in range(6):
        changed = tokens.clone()
        changed[:, t:] = (changed[:, t:] + 3) % 8
        after = made.values(prompts, changed)
        torch.testing.assert_close(after[:, : t + 1], before[:, : t + 1], rtol=0, atol=1e-5)
        if t < 5:
            # It does see the token before, whoever wrote it.
            assert (after[:, t + 1] - before[:, t + 1]).abs().min() > 1e-4


def test_values_depend_on_the_prompt():
    made, tokens = critic(), responses(1, 4).expand(6, 4)
    prompts, _ = asked(6)
    assert len(prompts.unique(dim=0)) == 6
    assert made.values(prompts, tokens)[:, 0].unique().numel() == 6


def test_a_column_more_is_the_value_after_the_last_token():
    made, tokens = critic(), responses(4, GAME.response_tokens)
    prompts, _ = asked(4)
    values = made.values(prompts, torch.cat([tokens, tokens[:, :1] * 0], 1))
    torch.testing.assert_close(values[:, :-1], made.values(prompts, tokens))
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 8
    other = made.values(prompts, torch.cat([changed, tokens[:, :1] * 0], 1))
    assert (other[:, -1] - values[:, -1]).abs().min() > 1e-4


def test_gradient_reaches_every_parameter_that_is_not_frozen():
    made = critic()
    frozen = freeze(made, attention_modules)
    assert len(frozen) == 4
    prompts, _ = asked(8)
    made.values(prompts, responses(8, GAME.response_tokens)).square().sum().backward()
    for name, parameter in made.named_parameters():
        if name in frozen:
            assert parameter.grad is None
        else:
            assert (parameter.grad != 0).any(), name
