"""TRL's `GRPOTrainer._compute_loss` without a trainer: a stand-in holds the settings that it reads."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from algorithms.rollout import Batch


def trl_loss(
    trainer_class: Any,
    log_probs: Tensor,
    batch: Batch,
    advantages: Tensor,
    *,
    loss_type: str = "grpo",
    low: float = 0.2,
    high: float = 0.2,
    level: str = "token",
    tokens: int = 1,
) -> Tensor:
    """Their loss of log-probs that are given instead of computed. It includes the metrics that they log.

    Args:
        trainer_class: `trl.GRPOTrainer`.
        high: half-width above one, but for `cispo`, where they take the bound itself.
        tokens: divisor of a rollout in `dr_grpo`.
    """
    mask = batch.action_mask.to(log_probs.dtype)
    settings = {
        "loss_type": loss_type, "epsilon_low": low, "epsilon_high": high, "importance_sampling_level": level,
        "max_completion_length": tokens, "beta": 0.0, "top_entropy_quantile": 1.0, "use_vllm": False,
        "off_policy_mask_threshold": None, "aux_loss_enabled": False, "_entropy_bonus_enabled": False,
        "vllm_importance_sampling_correction": False, "current_gradient_accumulation_steps": 1,
    }  # fmt: skip
    trainer = SimpleNamespace(
        **settings,
        model=SimpleNamespace(training=True),
        args=SimpleNamespace(
            delta=None, steps_per_generation=1, sapo_temperature_pos=1.0, sapo_temperature_neg=1.05,
            vespo_k_pos=2.0, vespo_lambda_pos=3.0, vespo_k_neg=3.0, vespo_lambda_neg=2.0,
        ),
        accelerator=SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x, sync_gradients=True
        ),
        get_gamma_weights=getattr(trainer_class, "get_gamma_weights", None),
        _metrics={"train": defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (log_probs, torch.zeros_like(log_probs), None),
    )  # fmt: skip
    nothing = torch.zeros(len(mask), 0, dtype=torch.long)
    inputs = {
        "prompt_ids": nothing, "prompt_mask": nothing, "completion_ids": batch.token_ids,
        "completion_mask": mask, "advantages": advantages, "old_per_token_logps": batch.old_log_probs,
        "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    return trainer_class._compute_loss(trainer, None, inputs)
