"""Sampling: what is recorded is what the weights say, and nothing else decides what is said."""

from __future__ import annotations

import math

import torch

from simulator.lab.models.decoding import converse, draw, keep_cache, recompute_cache
from simulator.lab.models.gpt import token_log_probs
from simulator.lab.tasks.game import CHOOSE, END
from tests.simulator.lab.models.small import STOP, Sums, asked, network

ROWS = 40
GAME = Sums()
WIDTH = GAME.response_tokens


def rising(rows: int, versions: int) -> torch.Tensor:
    """Versions of each token, changing anywhere, never falling."""
    drawn = torch.randint(0, versions, (rows, WIDTH), generator=torch.Generator().manual_seed(5))
    return drawn.sort(1).values


def speakers(count: int) -> list:
    return [network(seed).snapshot() for seed in range(count)]


def test_recorded_log_probs_are_those_of_the_weights():
    model, (prompts, uniforms) = network(), asked(ROWS)
    said = converse(GAME, prompts, [model.snapshot()], torch.zeros(ROWS, WIDTH).long(), uniforms)
    again = model.log_probs(prompts, said.tokens)
    assert said.action_mask.sum() > 5 * ROWS
    difference = (again - said.log_probs).where(said.action_mask, 0.0)
    assert difference.abs().max() < 1e-5
    assert (said.log_probs.where(said.action_mask, 0.0) == said.log_probs).all()


def test_with_the_cache_made_again_each_token_is_its_own_versions():
    held, versions, (prompts, uniforms) = speakers(4), rising(ROWS, 4), asked(ROWS)
    said = converse(GAME, prompts, held, versions, uniforms, crossing=recompute_cache)
    every = torch.stack([speaker.log_probs(prompts, said.tokens) for speaker in held])
    width = said.tokens.shape[1]
    wanted = every.gather(0, versions[None, :, :width])[0]
    assert (wanted - said.log_probs).where(said.action_mask, 0.0).abs().max() < 1e-5


def test_with_the_cache_kept_the_prefix_is_what_the_old_weights_made_of_it():
    """Two versions of one layer: the new one reads keys and values of the old one, and its own token's."""
    held, (prompts, uniforms) = speakers(2), asked(ROWS)
    versions = torch.zeros(ROWS, WIDTH).long()
    versions[:, 4:] = 1
    said = converse(GAME, prompts, held, versions, uniforms, crossing=keep_cache)
    old, new = (speaker.weights for speaker in held)

    def normed(x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])

    # Token 4 is chosen after reading token 3, at text position 3 + 3, by the new weights.
    text = torch.cat([prompts, said.tokens], 1)[:, : 3 + 4]
    xs = [w.tokens[text] + w.positions[: text.shape[1]] for w in (old, new)]
    x = torch.cat([xs[0][:, :-1], xs[1][:, -1:]], 1)
    for layers in zip(old.layers, new.layers, strict=True):
        halves = []
        for layer, part in zip(layers, (x[:, :-1], x[:, -1:]), strict=True):
            halves.append((normed(part) @ layer.qkv.T).view(ROWS, part.shape[1], 3, 2, 8))
        query, key, value = torch.cat(halves, 1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(8)
        causal = torch.ones(scores.shape[-2:]).tril().bool()
        mixed = (scores.masked_fill(~causal, -math.inf).softmax(-1) @ value).transpose(1, 2).flatten(2)
        parts = []
        for layer, part in zip(layers, (slice(0, -1), slice(-1, None)), strict=True):
            y = x[:, part] + mixed[:, part] @ layer.out.T
            parts.append(y + torch.nn.functional.gelu(normed(y) @ layer.up.T) @ layer.down.T)
        x = torch.cat(parts, 1)
    log_probs = (normed(x[:, -1]) @ new.head.T).log_softmax(-1)
    wanted = log_probs.gather(1, said.tokens[:, 4:5])[:, 0]
    here = said.action_mask[:, 4]
    assert here.sum() > ROWS / 2
    assert (wanted - said.log_probs[:, 4])[here].abs().max() < 1e-5
    # The cache matters: the new weights alone would have said otherwise.
    alone = held[1].log_probs(prompts, said.tokens)[:, 4]
    assert (alone - said.log_probs[:, 4])[here].abs().max() > 1e-2


def test_what_is_said_does_not_depend_on_the_batch():
    held, versions, (prompts, uniforms) = speakers(3), rising(ROWS, 3), asked(ROWS)
    for crossing in (keep_cache, recompute_cache):
        together = converse(GAME, prompts, held, versions, uniforms, crossing=crossing)
        for row in range(0, ROWS, 7):
            one = slice(row, row + 1)
            alone = converse(GAME, prompts[one], held, versions[one], uniforms[one], crossing=crossing)
            length = int(together.lengths[row])
            assert alone.lengths.item() == length == alone.tokens.shape[1]
            assert torch.equal(alone.tokens[0], together.tokens[row, :length])
            torch.testing.assert_close(alone.log_probs[0], together.log_probs[row, :length])


def test_weights_that_take_no_part_change_nothing():
    held, (prompts, uniforms) = speakers(3), asked(ROWS)
    versions = torch.ones(ROWS, WIDTH).long()
    among = converse(GAME, prompts, held, versions, uniforms)
    alone = converse(GAME, prompts, held[1:2], versions * 0, uniforms)
    assert all(torch.equal(a, b) for a, b in zip(among, alone, strict=True))


def test_turns_observations_ends_and_truncation():
    model, (prompts, uniforms) = network(), asked(200)
    said = converse(GAME, prompts, [model.snapshot()], torch.zeros(200, WIDTH).long(), uniforms)
    width = said.tokens.shape[1]
    stops = (said.tokens == STOP) & said.action_mask
    ended = stops.any(1)
    assert 0 < ended.sum() < 200
    first = stops.float().argmax(1)
    assert torch.equal(said.lengths, torch.where(ended, first + 1, WIDTH))
    assert torch.equal(said.truncated, ~ended)
    place = torch.arange(width)
    inside = place < said.lengths[:, None]
    assert torch.equal(said.action_mask, inside & (place % 3 != 2))
    for t in range(2, width, 3):
        here = inside[:, t]
        assert torch.equal(said.tokens[here, t], said.tokens[here, t - 2 : t].sum(1) % 7)
    assert (said.tokens[~inside] == 0).all()
    assert (said.log_probs[~said.action_mask] == 0).all()


def test_answers_are_trimmed_to_the_longest():
    class Short(Sums):
        def follow(self, prompts, tokens, position, /):  # noqa: ARG002
            return torch.full_like(prompts[:, 0], END if position >= 4 else CHOOSE)

    prompts, uniforms = asked(6)
    said = converse(Short(), prompts, speakers(1), torch.zeros(6, WIDTH).long(), uniforms)
    assert said.tokens.shape == (6, 4)
    assert (said.lengths == 4).all()
    assert not said.truncated.any()


def test_frequencies_are_the_probabilities():
    """20,000 answers to one prompt: each count within 5 standard errors of its binomial mean."""
    count = 20_000
    model, (prompts, _) = network(), asked(1)
    uniforms = torch.rand(count, WIDTH, generator=torch.Generator().manual_seed(3))

    class Two(Sums):
        response_tokens = 2

    said = converse(
        Two(), prompts.expand(count, 3), [model.snapshot()], torch.zeros(count, 2).long(), uniforms[:, :2]
    )
    pairs = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    log_probs = token_log_probs(model.weights(), 2, prompts.expand(64, 3), pairs).detach().double()
    # After a stop there is no second token: its pairs come to one, (stop, padding 0).
    wanted = log_probs.sum(1).exp()
    wanted[pairs[:, 0] == STOP] = 0.0
    wanted[STOP * 8] = log_probs[STOP * 8, 0].exp()
    seen = (said.tokens[:, 0] * 8 + said.tokens[:, 1]).bincount(minlength=64) / count
    error = (wanted * (1 - wanted) / count).sqrt()
    assert ((seen - wanted).abs() <= 5 * error + 1e-9).all()
    assert (wanted > 0.01).sum() > 10


def test_draws_invert_the_cumulative_distribution():
    probabilities = torch.tensor([0.125, 0.5, 0.0, 0.375])
    uniforms = torch.tensor([0.0, 0.124, 0.126, 0.62, 0.63, 1 - 2**-24])
    chosen, log_probs = draw(probabilities.log().clamp(min=-200).expand(6, 4), uniforms)
    assert chosen.tolist() == [0, 0, 1, 1, 3, 3]
    torch.testing.assert_close(log_probs.exp(), probabilities[chosen])


def test_no_uniform_draws_a_token_of_no_probability():
    logits = torch.tensor([[3.0, 1.0, -300.0, -300.0]]).expand(50, 4)
    uniforms = 1 - torch.arange(1, 51) * 2.0**-24
    chosen, log_probs = draw(logits, uniforms)
    assert (chosen <= 1).all()
    assert log_probs.isfinite().all()
