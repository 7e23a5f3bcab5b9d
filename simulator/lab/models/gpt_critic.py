"""What reward is to be expected after this prompt and these tokens?

The policy's network, with one number for a head.
Parameter names are the policy's, so that `algorithms.critic.attention_modules` freezes the attentions.
"""

from __future__ import annotations

import copy
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulator.lab.models.gpt import Gpt, Layer, Weights, response_logits


@final
class GptCritic(nn.Module):
    """The value network, initialised from the policy's weights.

    Args:
        policy: its weights are copied; the head starts from zeros, so that every value starts at 0.
    """

    def __init__(self, policy: Gpt) -> None:
        super().__init__()
        self.sizes = policy.sizes
        self.tokens = nn.Parameter(policy.tokens.detach().clone())
        self.positions = nn.Parameter(policy.positions.detach().clone())
        self.layers = copy.deepcopy(policy.layers)
        self.head = nn.Parameter(torch.zeros(1, policy.sizes.width))
        self.head_bias = nn.Parameter(torch.zeros(()))

    def values(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """V(s_t) in units of reward; s_t is the prompt and tokens[:t], observations included.

        The value after the last token is the last column for tokens with one more column, whatever is in it.
        """
        layers = tuple(layer.weights() for layer in self.layers if isinstance(layer, Layer))
        weights = Weights(self.tokens, self.positions, layers, self.head)
        return response_logits(weights, self.sizes.heads, prompts, tokens)[..., 0] + self.head_bias
