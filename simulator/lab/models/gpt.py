"""A small language model: what does it say after this prompt and these tokens, and how surely?

A pre-norm decoder with learned positions and causal attention. Norms have no parameters and linear maps no
bias (*choice*): the map after a norm absorbs its gain, and in a model this small their time would count.
The forward pass is a function of plain weights, so that what trains and what an engine holds run the same
code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from simulator.lab.models.lengths import PADDING, by_length


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Of the network; 0.19 million parameters as they stand.

    Width 96 and depth 2 are the fastest on one core among those of about 0.2 million parameters that have
    more than one layer: a second layer is what looking up an earlier token needs.

    Raises:
        ValueError: a number below 1, or a width that the heads cannot share evenly.
    """

    width: int = 96
    depth: int = 2
    heads: int = 2
    expansion: int = 3
    """Width of the hidden layer between two attentions, over `width`."""

    def __post_init__(self) -> None:
        numbers = (self.width, self.depth, self.heads, self.expansion)
        if min(numbers) < 1 or self.width % self.heads:
            raise ValueError(f"{self} needs numbers >= 1 and a width that is a multiple of the heads")


class LayerWeights(NamedTuple):
    """Of one layer; each maps its last dimension to its first."""

    qkv: Float[Tensor, "3W W"]
    out: Float[Tensor, "W W"]
    up: Float[Tensor, "XW W"]
    down: Float[Tensor, "W XW"]


class Weights(NamedTuple):
    """Of a whole model."""

    tokens: Float[Tensor, "V W"]
    positions: Float[Tensor, "N W"]
    layers: tuple[LayerWeights, ...]
    head: Float[Tensor, "V W"]


def norm(x: Float[Tensor, "*rows W"]) -> Float[Tensor, "*rows W"]:
    """Mean 0 and variance 1 over the last dimension."""
    return functional.layer_norm(x, x.shape[-1:])


def hidden(weights: Weights, heads: int, inputs: Int[Tensor, "B N"], *, first: int) -> Float[Tensor, "B M W"]:
    """The last layer's normed output at positions `first` and later; each sees no later position."""
    rows, length = inputs.shape
    x = functional.embedding(inputs, weights.tokens) + weights.positions[:length]
    width = x.shape[-1]
    for layer in weights.layers:
        qkv = functional.linear(norm(x), layer.qkv).view(rows, length, 3, heads, width // heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(rows, length, width)
        if layer is weights.layers[-1]:
            # Nothing after the last attention looks at another position.
            x, mixed = x[:, first:], mixed[:, first:]
        x = x + functional.linear(mixed, layer.out)
        x = x + functional.linear(functional.gelu(functional.linear(norm(x), layer.up)), layer.down)
    return norm(x)


def response_logits(
    weights: Weights, heads: int, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]
) -> Float[Tensor, "B T V"]:
    """Logits of each response token, given the prompt and the tokens before it; `PADDING` is not read."""

    def read(prompts: Int[Tensor, "b P"], tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t V"]:
        inputs = torch.cat([prompts, tokens[:, :-1]], dim=1)
        return functional.linear(hidden(weights, heads, inputs, first=prompts.shape[1] - 1), weights.head)

    return by_length(prompts, tokens, read)


def token_log_probs(
    weights: Weights, heads: int, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """log pi(tokens[t] | prompt, tokens[:t]) in nats, at temperature 1; 0 where tokens[t] is `PADDING`."""
    logits = response_logits(weights, heads, prompts, tokens).flatten(0, 1)
    losses = functional.cross_entropy(logits, tokens.flatten(), reduction="none", ignore_index=PADDING)
    return -losses.view_as(tokens)


def _normal(*shape: int, scale: float, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, generator=generator) * scale)


@final
class Attention(nn.Module):
    """Parameters of one attention; `algorithms.critic.attention_modules` knows them by the name `attn`."""

    def __init__(self, sizes: Sizes, generator: torch.Generator) -> None:
        super().__init__()
        scale = 1 / math.sqrt(sizes.width)
        self.qkv = _normal(3 * sizes.width, sizes.width, scale=scale, generator=generator)
        self.out = _normal(
            sizes.width, sizes.width, scale=scale / math.sqrt(2 * sizes.depth), generator=generator
        )


@final
class HiddenLayer(nn.Module):
    """Parameters of the two maps after an attention."""

    def __init__(self, sizes: Sizes, generator: torch.Generator) -> None:
        super().__init__()
        inner = sizes.expansion * sizes.width
        self.up = _normal(inner, sizes.width, scale=1 / math.sqrt(sizes.width), generator=generator)
        self.down = _normal(
            sizes.width, inner, scale=1 / math.sqrt(2 * sizes.depth * inner), generator=generator
        )


@final
class Layer(nn.Module):
    """An attention and the hidden layer after it."""

    def __init__(self, sizes: Sizes, generator: torch.Generator) -> None:
        super().__init__()
        self.attn = Attention(sizes, generator)
        self.mlp = HiddenLayer(sizes, generator)

    def weights(self) -> LayerWeights:
        return LayerWeights(self.attn.qkv, self.attn.out, self.mlp.up, self.mlp.down)


@final
class Gpt(nn.Module):
    """The policy.

    Args:
        sizes: of the network.
        vocabulary: V, token ids are 0..V-1.
        positions: N, the longest prompt and response together.
        generator: of the starting weights.
    """

    def __init__(self, sizes: Sizes, *, vocabulary: int, positions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.sizes = sizes
        scale = 1 / math.sqrt(sizes.width)
        self.tokens = _normal(vocabulary, sizes.width, scale=scale, generator=generator)
        self.positions = _normal(positions, sizes.width, scale=scale, generator=generator)
        self.layers = nn.ModuleList(Layer(sizes, generator) for _ in range(sizes.depth))
        self.head = _normal(vocabulary, sizes.width, scale=0.1 * scale, generator=generator)

    def weights(self) -> Weights:
        """The parameters themselves, for the functions above."""
        layers = tuple(layer.weights() for layer in self.layers if isinstance(layer, Layer))
        return Weights(self.tokens, self.positions, layers, self.head)

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """log pi(tokens[t] | prompt, tokens[:t]) in nats at temperature 1, padding included."""
        return token_log_probs(self.weights(), self.sizes.heads, prompts, tokens)

    def logits(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Logits of which `log_probs` takes the chosen token's."""
        return response_logits(self.weights(), self.sizes.heads, prompts, tokens)

    def snapshot(self) -> FrozenGpt:
        """The same as it is now, for good."""
        return FrozenGpt(self.weights(), self.sizes.heads)


@final
class FrozenGpt:
    """Weights that never change: a copy, in one float32 vector."""

    def __init__(self, weights: Weights, heads: int) -> None:
        self.heads = heads
        self.vector: Float[Tensor, " n"] = torch.cat([part.detach().flatten() for part in _parts(weights)])
        self.weights = _views(self.vector, weights)

    def with_vector(self, vector: Float[Tensor, " n"]) -> FrozenGpt:
        """Another of the same sizes.

        Raises:
            ValueError: a vector of another length.
        """
        if vector.shape != self.vector.shape:
            raise ValueError(f"a network of {len(self.vector)} numbers cannot hold {len(vector)}")
        return FrozenGpt(_views(vector, self.weights), self.heads)

    @torch.no_grad()
    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """As `Gpt.log_probs`, without a gradient."""
        return token_log_probs(self.weights, self.heads, prompts, tokens)


def _parts(weights: Weights) -> list[Tensor]:
    """All matrices, in one fixed order."""
    layers = [matrix for layer in weights.layers for matrix in layer]
    return [weights.tokens, weights.positions, *layers, weights.head]


def _views(vector: Float[Tensor, " n"], like: Weights) -> Weights:
    """The matrices in a vector; views, so that a thousand versions are a thousand vectors and no more."""
    parts = _parts(like)
    pieces = torch.split(vector, [part.numel() for part in parts])
    tokens, positions, *rest, head = (piece.view_as(p) for piece, p in zip(pieces, parts, strict=True))
    size = len(LayerWeights._fields)
    layers = tuple(LayerWeights(*rest[i : i + size]) for i in range(0, len(rest), size))
    return Weights(tokens, positions, layers, head)
