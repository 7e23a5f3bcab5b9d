"""How do other libraries write the losses that `bench_losses` measures?

Each is a function of (log pi, batch, advantages). TRL's is a trainer's method, called without its trainer: it
includes the metrics that it logs, for which it has no switch, and two tensors of the stand-in's, a mask in
floats and zeros for entropies.
"""

from __future__ import annotations

import dataclasses
import warnings
from functools import cache, partial
from typing import Any

import polgrad
from torch import Tensor

from algorithms.rollout import Batch
from tests.oracles.trl_loss import trl_loss


def of_polgrad(config: polgrad.PolicyLossConfig, lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    return polgrad.policy_loss(
        config,
        logprobs=lp,
        old_logprobs=b.old_log_probs,
        rollout_logprobs=b.behaviour_log_probs,
        advantages=a,
        response_mask=b.action_mask,
    ).loss


def polgrad_config(name: str, **changes: object) -> polgrad.PolicyLossConfig:
    return dataclasses.replace(polgrad.ALGORITHMS[name].loss, kl=None, **changes)


def of_trl(options: dict[str, Any], lp: Tensor, b: Batch, a: Tensor) -> Tensor:
    return trl_loss(trl_trainer(), lp, b, a[:, 0], **options)


@cache
def trl_trainer() -> Any:
    """Loaded when it is first asked for: with transformers, and not installed everywhere."""
    with warnings.catch_warnings():
        # What they and their dependencies deprecate is theirs to mend.
        warnings.simplefilter("ignore")
        from trl import GRPOTrainer
    return GRPOTrainer


_WIDE = polgrad_config("grpo", clip=polgrad.ClipConfig(eps_low=0.2, eps_high=0.28))
_TRUNCATED = dataclasses.replace(_WIDE, is_correction=polgrad.ISCorrectionConfig(cap=2.0, level="token"))

POLGRAD_GRPO = partial(of_polgrad, _WIDE)
POLGRAD_TOKEN_TIS = partial(of_polgrad, _TRUNCATED)
POLGRAD_CISPO = partial(of_polgrad, polgrad_config("cispo"))
POLGRAD_GSPO = partial(of_polgrad, polgrad_config("gspo"))

TRL_GRPO = partial(of_trl, {"loss_type": "grpo", "high": 0.28})
# Their epsilon_high is the bound itself.
TRL_CISPO = partial(of_trl, {"loss_type": "cispo", "high": 1.2})
TRL_GSPO = partial(of_trl, {"loss_type": "grpo", "level": "sequence", "low": 3e-4, "high": 4e-4})
