"""Batches by hand: one row or many, with nothing to fill in but what the test is about."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algorithms.rollout import Batch

T64 = torch.float64


def rows(*lists: list[float], dtype: torch.dtype = T64) -> Tensor:
    """Lists of unequal length -> [B, T], padded with NaN where floating, zero elsewhere."""
    width = max(len(x) for x in lists)
    pad = float("nan") if dtype.is_floating_point else 0
    return torch.tensor([[*x, *[pad] * (width - len(x))] for x in lists], dtype=dtype)


def batch(mask: Tensor | list[list[int]], dtype: torch.dtype = T64, **fields: Any) -> Batch:
    """A batch from its action mask; every other field is zero, or a group of its own, unless given.

    Per-token floats are NaN off the mask, so each test here is a test of padding too.
    """
    action = rows(*mask, dtype=torch.long).bool() if isinstance(mask, list) else mask
    b, t = action.shape
    zeros = torch.zeros(b, t, dtype=dtype).where(action, float("nan"))
    defaults: dict[str, Any] = {
        "token_ids": torch.zeros(b, t, dtype=torch.long),
        "action_mask": action,
        "behaviour_log_probs": zeros,
        "policy_versions": torch.zeros(b, t, dtype=torch.long),
        "rewards": zeros,
        "prompt_ids": torch.arange(b),
        "group_ids": torch.arange(b),
        "truncated": torch.zeros(b, dtype=torch.bool),
        "temperature": torch.ones(b, dtype=dtype),
    }
    return Batch(**{**defaults, **fields})


def terminal(action: Tensor, rewards: list[float], dtype: torch.dtype = T64) -> Tensor:
    """Each reward on the last action token of its row; NaN off the action tokens."""
    out = torch.zeros(action.shape, dtype=dtype)
    for row, (chosen, reward) in enumerate(zip(action, rewards, strict=True)):
        out[row, int(chosen.nonzero()[-1])] = reward
    return out.where(action, float("nan"))


def bandit(rewards: list[float], groups: list[int], **fields: Any) -> Batch:
    """One-token rollouts."""
    action = torch.ones(len(rewards), 1, dtype=torch.bool)
    return batch(action, rewards=terminal(action, rewards), group_ids=torch.tensor(groups), **fields)
