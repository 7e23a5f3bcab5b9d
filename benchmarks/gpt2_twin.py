"""What is the lab's GPT as a GPT-2 of transformers'?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simulator.lab.models.gpt import Gpt


def twin(network: Gpt) -> Any:
    """A GPT-2 that says what ours says."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes, weights = network.sizes, network.weights()
    theirs = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(weights.tokens), n_positions=len(weights.positions), n_embd=sizes.width,
            n_layer=sizes.depth, n_head=sizes.heads, n_inner=sizes.expansion * sizes.width,
            activation_function="gelu", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip
    body = theirs.transformer
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.zero_()
        for norm in (body.ln_f, *(n for block in body.h for n in (block.ln_1, block.ln_2))):
            norm.weight.fill_(1.0)
        body.wte.weight.copy_(weights.tokens)
        body.wpe.weight.copy_(weights.positions)
        theirs.lm_head.weight.copy_(weights.head)
        for block, layer in zip(body.h, weights.layers, strict=True):
            maps = (block.attn.c_attn, block.attn.c_proj, block.mlp.c_fc, block.mlp.c_proj)
            for theirs_map, ours in zip(maps, layer, strict=True):
                theirs_map.weight.copy_(ours.t())
    return theirs


def check_twin(network: Gpt, prompts: Tensor, tokens: Tensor) -> None:
    """Raises if the two do not say the same."""
    with torch.no_grad():
        ours = network.logits(prompts, tokens)
        theirs = twin(network)(torch.cat([prompts, tokens], 1)).logits
    torch.testing.assert_close(
        theirs[:, prompts.shape[1] - 1 : -1].log_softmax(-1), ours.log_softmax(-1), rtol=1e-4, atol=1e-4
    )
