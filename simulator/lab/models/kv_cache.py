"""What does reading one more token of every rollout cost, when rollouts are read by different weights?

Keys and values of what was read are kept, so a position costs one token a rollout. Rollouts under different
weights share every operation but the matrix products, which run once a version on that version's rows. (Eight
versions cost 1.5 times what one costs; one forward pass a version, 2.6 times. Batched products over groups
padded to the largest win by a third where groups are equal, and lose where one is three times the mean.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from simulator.lab.models.gpt import FrozenGpt, norm

Matrices: TypeAlias = Sequence[Float[Tensor, "I O"]]
"""Of each version; a row is mapped from the left."""


class Order(NamedTuple):
    """Rows sorted by version, so that each version's are a slice."""

    given: Int[Tensor, " B"]
    """Versions as they came."""
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
            return cls(versions, None, None, ordered, slices)
        return cls(versions, rows, torch.argsort(rows), ordered, slices)

    def sort(self, x: Tensor) -> Tensor:
        return x if self.rows is None else x.index_select(0, self.rows)

    def unsort(self, x: Tensor) -> Tensor:
        return x if self.back is None else x.index_select(0, self.back)

    def product(self, x: Float[Tensor, "r I"], matrices: Matrices) -> Float[Tensor, "r O"]:
        """Each sorted row times the matrix of its version; every rollout has r / B rows, its tokens."""
        if len(self.slices) == 1:
            return torch.mm(x, matrices[self.slices[0][0]])
        y = x.new_empty(len(x), matrices[0].shape[1])
        for version, part in self._parts(len(x)):
            torch.mm(x[part], matrices[version], out=y[part])
        return y

    def added(
        self, x: Float[Tensor, "r O"], y: Float[Tensor, "r I"], matrices: Matrices
    ) -> Float[Tensor, "r O"]:
        """x plus the product of y."""
        if len(self.slices) == 1:
            return torch.addmm(x, y, matrices[self.slices[0][0]])
        total = torch.empty_like(x)
        for version, part in self._parts(len(x)):
            torch.addmm(x[part], y[part], matrices[version], out=total[part])
        return total

    def _parts(self, rows: int) -> Iterator[tuple[int, slice]]:
        each = rows // len(self.versions)
        for version, start, stop in self.slices:
            yield version, slice(start * each, stop * each)


class _Layer(NamedTuple):
    """The matrices of all versions, field by field as in `LayerWeights`."""

    qkv: Matrices
    out: Matrices
    up: Matrices
    down: Matrices


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
        self._vocabulary = len(weights[0].head)
        self._tokens = torch.cat([w.tokens for w in weights])
        self._positions = torch.stack([w.positions for w in weights])
        self._layers = [
            _Layer(*([matrix.t() for matrix in matrices] for matrices in zip(*versions, strict=True)))
            for versions in zip(*(w.layers for w in weights), strict=True)
        ]
        self._head = [w.head.t() for w in weights]
        self._heads = speakers[0].heads
        per_head = self._tokens.shape[-1] // self._heads
        # Keys, then values.
        self._cache = torch.empty(2, len(self._layers), rows, self._heads, positions, per_head)
        self._order = Order.of(torch.zeros(rows, dtype=torch.long))

    def read(self, rows: Int[Tensor, " b"], inputs: Int[Tensor, "b n"], versions: Int[Tensor, " b"]) -> None:
        """Make the keys and values of the first n tokens of some rollouts, each by its version."""
        order = Order.of(versions)
        count, n = inputs.shape
        if n == 0:
            return
        x = self._embed(order.sort(inputs), torch.arange(n), order)
        for number, layer in enumerate(self._layers):
            qkv = order.unsort(order.product(norm(x), layer.qkv).view(count, n, -1))
            query, key, value = qkv.view(count, n, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            self._cache[0, number, rows, :, :n] = key
            self._cache[1, number, rows, :, :n] = value
            if number + 1 < len(self._layers):
                mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
                x = self._finish(x, mixed.transpose(1, 2).reshape(count, n, -1), layer, order)

    def step(
        self, inputs: Int[Tensor, " B"], position: int, versions: Int[Tensor, " B"]
    ) -> Float[Tensor, "B V"]:
        """Read one more token of every rollout, and say the logits of the next."""
        if not torch.equal(versions, self._order.given):
            self._order = Order.of(versions)
        order, rows = self._order, len(inputs)
        x = self._embed(order.sort(inputs)[:, None], torch.tensor([position]), order)
        for number, layer in enumerate(self._layers):
            qkv = order.unsort(order.product(norm(x), layer.qkv)).view(rows, 3, self._heads, -1)
            self._cache[:, number, :, :, position] = qkv[:, 1:].transpose(0, 1)
            keys, values = self._cache[:, number].flatten(1, 2)[:, :, : position + 1]
            mixed = _attend(qkv[:, 0].reshape(len(keys), 1, -1), keys, values)
            x = self._finish(x, mixed.view(rows, 1, -1), layer, order)
        return order.unsort(order.product(norm(x), self._head))

    def keep(self, rows: Int[Tensor, " b"]) -> None:
        """Forget all other rollouts; these are numbered anew, in this order."""
        self._cache = self._cache[:, :, rows]

    def _embed(
        self, inputs: Int[Tensor, "B n"], positions: Int[Tensor, " n"], order: Order
    ) -> Float[Tensor, "r W"]:
        versions = order.versions[:, None]
        tokens = functional.embedding(versions * self._vocabulary + inputs, self._tokens)
        return (tokens + self._positions[versions, positions]).flatten(0, 1)

    def _finish(
        self, x: Float[Tensor, "r W"], mixed: Float[Tensor, "B n W"], layer: _Layer, order: Order
    ) -> Float[Tensor, "r W"]:
        x = order.added(x, order.sort(mixed).flatten(0, 1), layer.out)
        return order.added(x, functional.gelu(order.product(norm(x), layer.up)), layer.down)


def _attend(
    query: Float[Tensor, "BH 1 D"], keys: Float[Tensor, "BH n D"], values: Float[Tensor, "BH n D"]
) -> Float[Tensor, "BH 1 D"]:
    """One query a row and head: two batched products take 0.6 times what the fused attention takes."""
    shares = torch.bmm(query * query.shape[-1] ** -0.5, keys.transpose(1, 2)).softmax(-1)
    return torch.bmm(shares, values)
