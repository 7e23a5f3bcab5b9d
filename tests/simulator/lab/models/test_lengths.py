"""Padding that is marked is not read, and nothing else changes."""

from __future__ import annotations

import torch

from simulator.lab.models.gpt_critic import GptCritic
from simulator.lab.models.lengths import PADDING, by_length
from tests.simulator.lab.models.small import asked, network

LENGTHS = torch.tensor([11, 1, 3, 2, 9, 5, 1, 11])


def responses() -> torch.Tensor:
    tokens = torch.randint(0, 8, (8, 11), generator=torch.Generator().manual_seed(1))
    return tokens.masked_fill(torch.arange(11) >= LENGTHS[:, None], PADDING)


def test_log_probs_and_gradients_are_those_of_unmarked_padding():
    model, (prompts, _), tokens = network(), asked(8), responses()
    inside = tokens != PADDING
    found = model.log_probs(prompts, tokens)
    found.sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    wanted = model.log_probs(prompts, tokens.clamp(min=0)).where(inside, 0.0)
    wanted.sum().backward()
    torch.testing.assert_close(found, wanted)
    for gradient, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.snapshot().log_probs(prompts, tokens), wanted)


def test_values_are_those_of_unmarked_padding_with_a_column_more_too():
    critic, (prompts, _), tokens = GptCritic(network()), asked(8), responses()
    with torch.no_grad():
        critic.head.copy_(torch.randn(critic.head.shape, generator=torch.Generator().manual_seed(2)))
    inside = tokens != PADDING
    wanted = critic.values(prompts, tokens.clamp(min=0))
    torch.testing.assert_close(critic.values(prompts, tokens)[inside], wanted[inside])
    more = torch.nn.functional.pad(tokens, (0, 1))
    found = critic.values(prompts, more)
    torch.testing.assert_close(found[:, :-1][inside], wanted[inside])
    full = LENGTHS == 11
    after = critic.values(prompts[full], more[full])[:, -1]
    torch.testing.assert_close(found[full, -1], after)


def test_groups_are_read_to_their_own_longest():
    """Prompts of 3: 14 tokens in all at most, so rows of 11 and 9 and 5 (8 > 7), then of 3 and 2 and 1."""
    seen = []

    def read(prompts, tokens):
        seen.append((len(prompts), tokens.shape[1]))
        assert (tokens >= 0).all()
        return tokens[..., None].float() + prompts[:, :1, None]

    prompts = torch.arange(8)[:, None].expand(8, 3) * 100
    tokens = responses()
    said = by_length(prompts, tokens, read)[..., 0]
    assert seen == [(4, 11), (4, 3)]
    inside = tokens != PADDING
    assert torch.equal(said[inside], (tokens + prompts[:, :1]).float()[inside])


def test_columns_that_hold_padding_only_are_not_read():
    widths = []

    def read(prompts, tokens):  # noqa: ARG001
        widths.append(tokens.shape[1])
        return torch.ones(*tokens.shape, 2)

    tokens = torch.full((3, 6), PADDING)
    tokens[:, :2] = 1
    said = by_length(torch.zeros(3, 4).long(), tokens, read)
    assert widths == [2]
    assert said.sum((0, 2)).tolist() == [6, 6, 0, 0, 0, 0]
    by_length(torch.zeros(3, 4).long(), tokens * 0 + PADDING, read)
    assert widths == [2, 1], "a row of nothing is read as one token"
