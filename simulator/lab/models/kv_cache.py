"""What does reading one more token of every rollout cost, when rollouts are read by different weights?

Keys and values of what was read are kept, so a position costs one token a rollout. Rollouts under different
weights share every operation but the matrix products, which run once a version on that version's rows. (One
forward pass a version costs more, in calls; a batched product over groups padded to the largest, in work.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from simulator.lab.models.gpt import FrozenGpt, norm


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
