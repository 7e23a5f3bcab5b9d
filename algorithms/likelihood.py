"""How likely was each sampled token under these weights?"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from algorithms.precision import at_least_single
from algorithms.rollout import Batch


def token_log_probs(logits: Float[Tensor, "B T V"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""Log-probability of the sampled tokens at the temperature that sampled them.

    .. math:: \log \mathrm{softmax}(z_t / \tau)_{a_t}

    The logits are divided by the temperature, never the log-probs, which would no longer sum to
    one. Nucleus and top-k sampling renormalise over a subset that logits alone do not show: turn
    them off, or let the engine record its log-probs without them.

    Args:
        logits: row t predicts token t of the response, not token t + 1.
        batch: reads `token_ids`, `action_mask` and `temperature`.

    Returns:
        Log-probs in nats, exactly zero (with zero gradient) off the action tokens. Half-precision
        logits give float32: see `precision`.

    Raises:
        ValueError: `logits` and `batch` disagree on rollouts or tokens. (`gather` would accept
            logits that are too long, and shift every token without a word.)
    """
    if logits.shape[:2] != batch.action_mask.shape:
        raise ValueError(
            f"logits cover {tuple(logits.shape[:2])}, action_mask {tuple(batch.action_mask.shape)}"
        )
    # Mask before the softmax: its backward pass would turn NaN logits of padding into NaN gradients.
    masked = at_least_single(logits).where(batch.action_mask[..., None], 0.0)
    tempered = masked / batch.temperature[:, None, None]
    chosen = batch.token_ids.where(batch.action_mask, 0)
    log_probs = tempered.log_softmax(-1).gather(-1, chosen[..., None]).squeeze(-1)
    return log_probs.where(batch.action_mask, 0.0)
