"""What do these weights say to these prompts, when pushes may change them in the middle of a response?

All rollouts are sampled in lockstep over response positions; those that ended are left out from time to time.

When a push falls between two tokens of a rollout, an engine may go on with the keys and values that the old
weights made, or compute them again under the new ones; `keep_cache` and `recompute_cache` are the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from simulator.lab.models.gpt import FrozenGpt
from simulator.lab.models.kv_cache import Decoder
from simulator.lab.tasks.game import CHOOSE, END, Game

Crossing: TypeAlias = Callable[[Bool[Tensor, " B"]], Bool[Tensor, " B"]]
"""Rollouts whose weights change before this token -> those whose keys and values are computed again."""


def keep_cache(crossed: Bool[Tensor, " B"]) -> Bool[Tensor, " B"]:
    """Go on with what the old weights made of the prefix, as engines do that never pause."""
    return torch.zeros_like(crossed)


def recompute_cache(crossed: Bool[Tensor, " B"]) -> Bool[Tensor, " B"]:
    """Read the prefix again under the new weights: each token's log-prob is its own version's."""
    return crossed


class Said(NamedTuple):
    """Responses, right-padded to the longest of them."""

    tokens: Int[Tensor, "B T"]
    action_mask: Bool[Tensor, "B T"]
    log_probs: Float[Tensor, "B T"]
    """Of the chosen tokens under the weights and the cache that sampled them, in nats; 0 elsewhere."""
    lengths: Int[Tensor, " B"]
    """Tokens of each, observations included."""
    truncated: Bool[Tensor, " B"]


@torch.no_grad()
def converse(
    game: Game,
    prompts: Int[Tensor, "B P"],
    speakers: Sequence[FrozenGpt],
    versions: Int[Tensor, "B T"],
    uniforms: Float[Tensor, "B T"],
    *,
    crossing: Crossing = keep_cache,
) -> Said:
    """Play a game to its end.

    Args:
        game: says what stands at each position: the model's choice, an observation, or nothing.
        prompts: token ids.
        speakers: the versions of the weights that take part.
        versions: of each token, as its place in `speakers`; T is the most tokens of a response.
        uniforms: in [0, 1); each decides its token by inversion of the cumulative distribution.
        crossing: what becomes of keys and values where a rollout's version changes.
    """
    rows, width = versions.shape
    asked = prompts.shape[1]
    text = torch.cat([prompts, prompts.new_zeros(rows, width)], dim=1)
    chosen = torch.zeros(rows, width, dtype=torch.bool)
    told = _Table(torch.arange(rows), text, versions, uniforms, chosen, torch.zeros(rows, width))
    answers = _Table(*(column.clone() for column in told))
    decoder = Decoder(speakers, rows=rows, positions=asked + width)
    decoder.read(torch.arange(rows), text[:, : asked - 1], versions[:, 0])
    lengths = torch.full((rows,), width)
    truncated = torch.ones(rows, dtype=torch.bool)
    position = 0
    while True:
        follows = game.follow(told.text[:, :asked], told.text[:, asked:], position)
        over = follows == END
        ended = int(over.sum())
        if ended:
            gone = told.rows[over]
            lengths[gone] = lengths[gone].clamp(max=position)
            truncated[gone] = False
        if position == width or ended == len(over):
            break
        # Copying what is live costs less than reading on for what is not, once that is half of all.
        if 2 * ended >= len(over):
            live = (~over).nonzero()[:, 0]
            answers.put(told)
            told = told.some(live)
            decoder.keep(live)
            follows = follows[live]
        _say(decoder, told, follows, position, crossing)
        position += 1
    answers.put(told)
    seen = slice(max(position, 1))
    return Said(
        answers.text[:, asked:][:, seen],
        answers.action_mask[:, seen],
        answers.log_probs[:, seen],
        lengths,
        truncated,
    )


class _Table(NamedTuple):
    """What is known of the rollouts that are being sampled."""

    rows: Int[Tensor, " b"]
    """Which of all they are."""
    text: Int[Tensor, "b N"]
    """Prompt and response."""
    versions: Int[Tensor, "b T"]
    uniforms: Float[Tensor, "b T"]
    action_mask: Bool[Tensor, "b T"]
    log_probs: Float[Tensor, "b T"]

    def some(self, index: Int[Tensor, " c"]) -> _Table:
        return _Table(*(column[index] for column in self))

    def put(self, part: _Table) -> None:
        for column, piece in zip(self, part, strict=True):
            column[part.rows] = piece


def _say(
    decoder: Decoder, told: _Table, follows: Int[Tensor, " b"], position: int, crossing: Crossing
) -> None:
    """Write one more token of every rollout, in place."""
    asked = told.text.shape[1] - told.versions.shape[1]
    versions = told.versions[:, position]
    last = asked + position - 1
    if position:
        before = told.versions[:, position - 1]
        if not torch.equal(versions, before):
            again = crossing(versions != before).nonzero()[:, 0]
            if len(again):
                decoder.read(again, told.text[again, :last], versions[again])
    logits = decoder.step(told.text[:, last], last, versions)
    chosen, log_probs = draw(logits, told.uniforms[:, position])
    chooses = follows == CHOOSE
    told.text[:, last + 1] = chosen.where(chooses, follows.clamp(min=0))
    told.log_probs[:, position] = log_probs.where(chooses, 0.0)
    told.action_mask[:, position] = chooses


def draw(logits: Float[Tensor, "B V"], uniforms: Float[Tensor, " B"]) -> tuple[Tensor, Tensor]:
    """Tokens by inversion of the cumulative distribution, and their log-probs in nats."""
    log_probs = logits.log_softmax(-1)
    reached = log_probs.exp().cumsum(-1)
    # Rounding may leave the sum a little short of 1; scaled by it, no uniform falls beyond the last token.
    below = reached <= uniforms[:, None] * reached[:, -1:]
    chosen = below.sum(-1).clamp(max=logits.shape[-1] - 1)
    return chosen, log_probs.gather(-1, chosen[:, None])[:, 0]
