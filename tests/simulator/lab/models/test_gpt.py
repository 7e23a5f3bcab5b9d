"""The network against a slow twin, and what must not matter to it."""

from __future__ import annotations

import math

import pytest
import torch

from algorithms.critic import attention_modules
from simulator.lab.models.gpt import Gpt, Sizes, Weights
from tests.simulator.lab.models.small import SIZES, Sums, asked, network


def responses(rows: int = 5, length: int = 6, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, 8, (rows, length), generator=torch.Generator().manual_seed(seed))


def slowly(weights: Weights, heads: int, text: list[int]) -> torch.Tensor:
    """Log-probs of what follows the last token of one text, one head and one position at a time."""

    def normed(x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean()
        return centred / (centred.square().mean() + 1e-5).sqrt()

    xs = [weights.tokens[token] + weights.positions[place] for place, token in enumerate(text)]
    for layer in weights.layers:
        qkv = [(layer.qkv @ normed(x)).view(3, heads, -1) for x in xs]
        mixed = []
        for place in range(len(xs)):
            parts = []
            for head in range(heads):
                query = qkv[place][0, head]
                scores = torch.stack([query @ qkv[p][1, head] for p in range(place + 1)])
                shares = (scores / math.sqrt(len(query))).softmax(0)
                parts.append(sum(shares[p] * qkv[p][2, head] for p in range(place + 1)))
            mixed.append(torch.cat(parts))
        xs = [x + layer.out @ m for x, m in zip(xs, mixed, strict=True)]
        xs = [x + layer.down @ torch.nn.functional.gelu(layer.up @ normed(x)) for x in xs]
    return (weights.head @ normed(xs[-1])).log_softmax(0)


def test_log_probs_are_those_of_a_slow_twin():
    model, (prompts, _), tokens = network(), asked(2), responses(2, 4)
    fast = model.log_probs(prompts, tokens)
    for row in range(2):
        for t in range(4):
            text = [*prompts[row].tolist(), *tokens[row, :t].tolist()]
            slow = slowly(model.weights(), SIZES.heads, text)[tokens[row, t]]
            torch.testing.assert_close(fast[row, t], slow, rtol=1e-5, atol=1e-5)


def test_probabilities_of_all_tokens_sum_to_one():
    model, (prompts, _) = network(), asked(1)
    tokens = responses(1, 3).expand(8, 3).clone()
    tokens[:, 2] = torch.arange(8)
    total = model.log_probs(prompts.expand(8, 3), tokens)[:, 2].exp().sum()
    torch.testing.assert_close(total, torch.tensor(1.0))


def test_what_follows_a_token_does_not_matter_to_it():
    model, (prompts, _), tokens = network(), asked(5), responses()
    before = model.log_probs(prompts, tokens)
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 8
    torch.testing.assert_close(model.log_probs(prompts, changed)[:, :4], before[:, :4], rtol=0, atol=1e-6)
    # And it matters to those after it.
    assert (model.log_probs(prompts, changed)[:, 5] - before[:, 5]).abs().max() > 1e-3


def test_padding_does_not_matter_in_value_or_gradient():
    model, (prompts, _), tokens = network(), asked(5), responses()
    short = model.log_probs(prompts, tokens)
    short.sum().backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    long = model.log_probs(prompts, torch.cat([tokens, torch.zeros(5, 3, dtype=torch.long)], 1))
    long[:, :6].sum().backward()
    torch.testing.assert_close(long[:, :6], short)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-4, atol=1e-5)


def test_rows_are_independent():
    model, (prompts, _), tokens = network(), asked(5), responses()
    together = model.log_probs(prompts, tokens)
    alone = torch.cat([model.log_probs(prompts[i : i + 1], tokens[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(together, alone)


def test_gradient_reaches_every_parameter():
    game = Sums()
    model, (prompts, _) = network(), asked(8)
    model.log_probs(prompts, responses(8, game.response_tokens)).sum().backward()
    for name, parameter in model.named_parameters():
        # No token is read at the last position of the longest response, which only a critic reads.
        used = parameter.grad[:-1] if name == "positions" else parameter.grad
        assert (used != 0).any(-1).all(), name


def test_gradient_is_the_finite_difference():
    model = network().double()
    (prompts, _), tokens = asked(3), responses(3)
    weights = [p for _, p in model.named_parameters()]
    directions = [torch.randn(p.shape, generator=torch.Generator().manual_seed(2)).double() for p in weights]
    model.log_probs(prompts, tokens).sum().backward()
    slope = sum((p.grad * d).sum() for p, d in zip(weights, directions, strict=True))
    ends = []
    for step in (1e-6, -2e-6):
        with torch.no_grad():
            for p, d in zip(weights, directions, strict=True):
                p += step * d
        ends.append(model.log_probs(prompts, tokens).sum())
    torch.testing.assert_close(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)


def test_a_snapshot_stays_what_it_was():
    model, (prompts, _), tokens = network(), asked(5), responses()
    snapshot = model.snapshot()
    before = model.log_probs(prompts, tokens).detach()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    model.log_probs(prompts, tokens).sum().backward()
    optimizer.step()
    assert torch.equal(snapshot.log_probs(prompts, tokens), before)
    assert (model.log_probs(prompts, tokens) - before).abs().max() > 0.1
    again = model.snapshot().with_vector(snapshot.vector)
    assert torch.equal(again.log_probs(prompts, tokens), before)


def test_a_vector_of_another_network_is_refused():
    snapshot = network().snapshot()
    with pytest.raises(ValueError, match="cannot hold 3"):
        snapshot.with_vector(torch.zeros(3))


def test_starting_weights_follow_from_the_seed():
    assert torch.equal(network(3).snapshot().vector, network(3).snapshot().vector)
    assert not torch.equal(network(3).snapshot().vector, network(4).snapshot().vector)


def test_the_default_network_has_about_two_tenths_of_a_million_parameters():
    model = Gpt(Sizes(), vocabulary=14, positions=16, generator=torch.Generator())
    width, inner = 96, 288
    layers = 2 * (4 * width * width + 2 * width * inner)
    assert sum(p.numel() for p in model.parameters()) == layers + (14 + 16 + 14) * width == 188544


def test_attentions_are_known_by_their_names():
    names = [name for name, _ in network().named_parameters() if attention_modules(name)]
    assert names == [f"layers.{i}.attn.{part}" for i in (0, 1) for part in ("qkv", "out")]


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"width": 10, "heads": 3}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(ValueError, match="multiple of the heads"):
        Sizes(**wrong)
