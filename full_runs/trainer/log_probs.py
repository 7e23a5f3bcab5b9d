"""How sure was the model of each token, without all logits in memory at once?

8,192 tokens over a vocabulary of 152,064 are 5 GB of float32 logits a rollout, and as much again for their
gradient. In pieces, and made anew for the backward pass, there is one piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Head = Callable[[Float[Tensor, "n W"]], Float[Tensor, "n V"]]
"""State -> logits of the next token."""


def chosen_log_probs(
    states: Float[Tensor, "n W"],
    head: Head,
    tokens: Int[Tensor, " n"],
    temperature: Float[Tensor, " n"],
    *,
    states_at_once: int,
) -> Float[Tensor, " n"]:
    r"""Log-probability of each chosen token, in nats and in single precision.

    .. math:: \log\pi(a) = z_a / \tau - \log\sum_b e^{z_b / \tau}

    Args:
        states: the model's last hidden states, one a token.
        tokens: what was chosen in each.
        temperature: tau, at which it was chosen.
        states_at_once: logits of so many are in memory together.
    """
    if len(states) <= states_at_once:
        return _chosen(states, head, tokens, temperature)
    pieces = [
        checkpoint(_chosen, *piece[:1], head, *piece[1:], use_reentrant=False)
        for piece in zip(
            torch.split(states, states_at_once),
            torch.split(tokens, states_at_once),
            torch.split(temperature, states_at_once),
            strict=True,
        )
    ]
    return torch.cat(pieces)


def _chosen(states: Tensor, head: Head, tokens: Tensor, temperature: Tensor) -> Tensor:
    # Widened before the division: in bfloat16 a logit of 20 is right to 0.06 only.
    logits = head(states).float() / temperature[:, None].float()
    return -functional.cross_entropy(logits, tokens, reduction="none")
