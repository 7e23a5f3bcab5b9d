"""What do these weights say to these prompts, when pushes may change them in the middle of a response?

All rollouts are sampled in lockstep over response positions. Keys and values of what was read are kept, and a
position costs one token a rollout. Rollouts under different weights share every operation but the matrix
products, which run once a version, on its rows (measured: faster than one forward pass a version, and than
batched products over padded groups).

When a push falls between two tokens of a rollout, an engine may go on with the keys and values that the old
weights made, or compute them again under the new ones; `keep_cache` and `recompute_cache` are the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from simulator.lab.models.gpt import FrozenGpt, norm
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


class Order(NamedTuple):
    """Rows sorted by version, so that each version's are a slice."""

    rows: Int[Tensor, " B"] | None
    """None: they are sorted as they stand."""
    back: Int[Tensor, " B"] | None
    versions: Int[Tensor, " B"]
    """Of each row, sorted."""
    slices: list[tuple[int, int, int]]
    """(version, first row, row after the last)."""

    @classmethod
    def of(cls, versions: Int[Tensor, " B"]) -> Order:
        ordered, rows = torch.sort(versions, stable=True)
        present, counts = torch.unique_consecutive(ordered, return_counts=True)
        slices = []
        start = 0
        for version, count in zip(present.tolist(), counts.tolist(), strict=True):
            slices.append((version, start, start + count))
            start += count
        if torch.equal(ordered, versions):
            return cls(None, None, ordered, slices)
        return cls(rows, torch.argsort(rows), ordered, slices)

    def sort(self, x: Tensor) -> Tensor:
        return x if self.rows is None else x.index_select(0, self.rows)

    def unsort(self, x: Tensor) -> Tensor:
        return x if self.back is None else x.index_select(0, self.back)

    def linear(
        self, x: Float[Tensor, "B n I"], matrices: Sequence[Float[Tensor, "O I"]]
    ) -> Float[Tensor, "B n O"]:
        """Each sorted row times the matrix of its version."""
        if len(self.slices) == 1:
            return functional.linear(x, matrices[self.slices[0][0]])
        y = x.new_empty(*x.shape[:-1], matrices[0].shape[0])
        flat_x, flat_y, n = x.flatten(0, 1), y.view(-1, y.shape[-1]), x.shape[1]
        for version, start, stop in self.slices:
            part = slice(start * n, stop * n)
            torch.mm(flat_x[part], matrices[version].t(), out=flat_y[part])
        return y


class _Layer(NamedTuple):
    """The matrices of all versions, field by field as in `LayerWeights`."""

    qkv: list[Tensor]
    out: list[Tensor]
    up: list[Tensor]
    down: list[Tensor]


@final
class Decoder:
    """Several versions of one network, and the keys and values of what rollouts have read so far.

    Args:
        speakers: the versions, numbered by their place here.
        rows: B, rollouts.
        positions: N, the most tokens that a rollout reads.
    """

    def __init__(self, speakers: Sequence[FrozenGpt], *, rows: int, positions: int) -> None:
        weights = [speaker.weights for speaker in speakers]
        self._tokens = torch.stack([w.tokens for w in weights])
        self._positions = torch.stack([w.positions for w in weights])
        self._layers = [
            _Layer(*(list(matrices) for matrices in zip(*versions, strict=True)))
            for versions in zip(*(w.layers for w in weights), strict=True)
        ]
        self._head = [w.head for w in weights]
        self._heads = speakers[0].heads
        per_head = self._tokens.shape[-1] // self._heads
        shape = (2, len(self._layers), rows, self._heads, positions, per_head)
        self._keys, self._values = torch.empty(shape)

    def read(self, rows: Int[Tensor, " b"], inputs: Int[Tensor, "b n"], versions: Int[Tensor, " b"]) -> None:
        """Make the keys and values of the first n tokens of some rollouts, each by its version."""
        order = Order.of(versions)
        n = inputs.shape[1]
        if n == 0:
            return
        x = self._embed(order.sort(inputs), torch.arange(n), order)
        for number, layer in enumerate(self._layers):
            query, key, value = self._split(order.unsort(order.linear(norm(x), layer.qkv)))
            self._keys[number, rows, :, :n] = key
            self._values[number, rows, :, :n] = value
            if number + 1 < len(self._layers):
                mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
                x = self._finish(x, mixed, layer, order)

    def step(
        self, inputs: Int[Tensor, " B"], position: int, versions: Int[Tensor, " B"]
    ) -> Float[Tensor, "B V"]:
        """Read one more token of every rollout, and say the logits of the next."""
        order = Order.of(versions)
        x = self._embed(order.sort(inputs[:, None]), torch.tensor([position]), order)
        for number, layer in enumerate(self._layers):
            query, key, value = self._split(order.unsort(order.linear(norm(x), layer.qkv)))
            self._keys[number, :, :, position] = key[:, :, 0]
            self._values[number, :, :, position] = value[:, :, 0]
            seen = slice(position + 1)
            mixed = _attend(query, self._keys[number, :, :, seen], self._values[number, :, :, seen])
            x = self._finish(x, mixed, layer, order)
        return order.unsort(order.linear(norm(x), self._head))[:, 0]

    def keep(self, rows: Int[Tensor, " b"]) -> None:
        """Forget all other rollouts; these are numbered anew, in this order."""
        self._keys, self._values = self._keys[:, rows], self._values[:, rows]

    def _embed(
        self, inputs: Int[Tensor, "B n"], positions: Int[Tensor, " n"], order: Order
    ) -> Float[Tensor, "B n W"]:
        versions = order.versions[:, None]
        return self._tokens[versions, inputs] + self._positions[versions, positions]

    def _split(self, qkv: Float[Tensor, "B n 3W"]) -> tuple[Tensor, ...]:
        rows, n, _ = qkv.shape
        return qkv.view(rows, n, 3, self._heads, -1).permute(2, 0, 3, 1, 4).unbind()

    def _finish(
        self, x: Float[Tensor, "B n W"], mixed: Float[Tensor, "B H n D"], layer: _Layer, order: Order
    ) -> Float[Tensor, "B n W"]:
        mixed = order.sort(mixed.transpose(1, 2).reshape(x.shape))
        x = x + order.linear(mixed, layer.out)
        return x + order.linear(functional.gelu(order.linear(norm(x), layer.up)), layer.down)


def _attend(
    query: Float[Tensor, "B H 1 D"], keys: Float[Tensor, "B H n D"], values: Float[Tensor, "B H n D"]
) -> Float[Tensor, "B H 1 D"]:
    """One query a row and head: two batched products take 0.6 times what the fused attention takes."""
    shares = torch.matmul(query * query.shape[-1] ** -0.5, keys.transpose(-1, -2)).softmax(-1)
    return torch.matmul(shares, values)


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
        lengths[told.rows[over]] = lengths[told.rows[over]].clamp(max=position)
        truncated[told.rows[over]] = False
        live = (~over).nonzero()[:, 0]
        if position == width or len(live) == 0:
            break
        # Copying what is live costs less than reading on for what is not, once that is half of all.
        if 2 * len(live) <= len(over):
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
        again = crossing(versions != told.versions[:, position - 1]).nonzero()[:, 0]
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
