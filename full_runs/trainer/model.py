"""What does a causal language model of transformers say of prompts and responses?

The policy, and a critic of its family. Both are modules whose `forward` is the one thing asked of them, since
that is what FSDP2 gathers weights around.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from full_runs.trainer.layout import PADDED, Layout
from full_runs.trainer.log_probs import chosen_log_probs
from simulator.lab.models.lengths import PADDING

LOGITS_AT_ONCE: Final = 2**25
"""So many are 128 MiB in single precision."""


def load(model: str, *, checkpointed: bool = False) -> nn.Module:
    """A causal language model in single precision, from a folder or by its name on the hub.

    Weights are read from safetensors only, never unpickled, and no code that comes with them runs.

    Args:
        checkpointed: keep each block's input only, and compute the block anew for the backward pass.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    loaded = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
    )
    return _ready(loaded, checkpointed=checkpointed)


def outlined(model: str, *, checkpointed: bool = False) -> nn.Module:
    """The same model without any numbers: every tensor is on the meta device."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(model, trust_remote_code=False)
    with torch.device("meta"):
        outline = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    return _ready(outline, checkpointed=checkpointed)


def _ready(model: Any, *, checkpointed: bool) -> nn.Module:
    # Dropout would make the trainer's log-probs another policy's than the engine's.
    for name in vars(model.config):
        if name.endswith(("dropout", "pdrop")) and isinstance(getattr(model.config, name), float):
            setattr(model.config, name, 0.0)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    model.train(checkpointed)
    if checkpointed:
        # transformers 5.2x has another name for what 5.1x calls this.
        enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
        enable({"use_reentrant": False})
    ready: nn.Module = model
    return ready


@final
class CausalPolicy(nn.Module):
    """The policy.

    Args:
        model: a causal language model of transformers: a decoder and a head.
        layout: how rows are put together.
        logits_at_once: at most so many are in memory together, a state's own apart.
    """

    def __init__(self, model: Any, *, layout: Layout = PADDED, logits_at_once: int = LOGITS_AT_ONCE) -> None:
        super().__init__()
        self.model = model
        self.layout = layout
        self.states_at_once: int = max(1, logits_at_once // self.model.config.vocab_size)

    def forward(
        self,
        prompts: Int[Tensor, "B P"],
        tokens: Int[Tensor, "B T"],
        temperature: Float[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T"]:
        """log pi(tokens[t] | prompt, tokens[:t]) in nats; 0 where tokens[t] is `PADDING`.

        Args:
            prompts: padded on the left.
            tokens: padded on the right; observations are read like any other token.
            temperature: of each row's sampling; None is 1.

        Raises:
            ValueError: a row without a prompt.
        """
        states, before = _states(self.model.get_decoder(), self.layout, prompts, tokens)
        present = tokens != PADDING
        if temperature is None:
            temperature = torch.ones(len(tokens), device=tokens.device)
        said = chosen_log_probs(
            states[before[present]],
            self.model.get_output_embeddings(),
            tokens[present],
            temperature[:, None].expand(tokens.shape)[present],
            states_at_once=self.states_at_once,
        )
        return said.new_zeros(tokens.shape).masked_scatter(present, said)

    def log_probs(
        self,
        prompts: Int[Tensor, "B P"],
        tokens: Int[Tensor, "B T"],
        temperature: Float[Tensor, " B"] | None = None,
    ) -> Float[Tensor, "B T"]:
        """`forward`, by the name that the lab's learner calls it."""
        said: Tensor = self(prompts, tokens, temperature)
        return said

    def snapshot(self) -> CausalPolicy:
        """The same as it is now, for good."""
        return copy.deepcopy(self).requires_grad_(False)

    def blocks(self) -> Sequence[nn.Module]:
        """The decoder's layers."""
        return _blocks(self.model.get_decoder())


@final
class CausalCritic(nn.Module):
    """The value network: the policy's decoder, with one number for a head.

    Args:
        policy: its decoder is copied, under the same names; the head starts from zeros, so that every value
            starts at 0.
    """

    def __init__(self, policy: CausalPolicy) -> None:
        super().__init__()
        self.body = copy.deepcopy(policy.model.get_decoder())
        self.layout = policy.layout
        like = next(self.body.parameters())
        width = policy.model.config.hidden_size
        self.head = nn.Linear(width, 1, device=like.device, dtype=like.dtype)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """V(s_t) in units of reward, s_t the prompt and tokens[:t], observations included.

        In the padding behind a response it is the value of the state after its last token.
        """
        states, before = _states(self.body, self.layout, prompts, tokens)
        values: Tensor = self.head(states)[:, 0].float()
        return values[before]

    def values(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """`forward`, by the name that the lab's learner calls it."""
        valued: Tensor = self(prompts, tokens)
        return valued

    def blocks(self) -> Sequence[nn.Module]:
        """The decoder's layers."""
        return _blocks(self.body)


def _states(
    decoder: Any, layout: Layout, prompts: Tensor, tokens: Tensor
) -> tuple[Float[Tensor, "n W"], Int[Tensor, "B T"]]:
    """The last hidden states, flattened, and the place of each token's own."""
    inputs = layout.arrange(prompts, tokens)
    said = decoder(input_ids=inputs.token_ids, position_ids=inputs.positions, use_cache=False)
    states: Tensor = said.last_hidden_state.flatten(0, 1)
    return states, inputs.before


def _blocks(decoder: Any) -> Sequence[nn.Module]:
    layers = getattr(decoder, "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise ValueError(f"{type(decoder).__name__} has no `layers`: it cannot be sharded block by block")
    return list(layers)
