"""Running means: what reward did earlier rollouts of this prompt earn?

The state is an explicit value: read the baselines of a batch, then extend the history with its rewards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algorithms.advantage import acting
from algorithms.rollout import Batch


def by_prompt(prompt_id: int) -> int:
    """Each prompt has a mean of its own."""
    return prompt_id


def shared(prompt_id: int) -> int:  # noqa: ARG001
    """All prompts share one mean: the online setting, where a prompt never comes back."""
    return 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RewardHistory:
    """The last `window` rewards of each key.

    SAO's ablation uses 8 rewards `by_prompt`, its online setting 128 rewards `shared`. What a prompt
    without history expects is not published; `empty` is our choice.

    Raises:
        ValueError: `window` below one.

    References:
        Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
    """

    window: int = 8
    key: Callable[[int], int] = by_prompt
    empty: float = 0.0
    """Baseline of a key that has no reward yet, in units of reward."""
    rewards: Mapping[int, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window must hold at least one reward, got {self.window}")

    def baselines(self, prompt_ids: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Mean of the past rewards of each rollout's key, for `Batch.baselines`."""
        past = [self.rewards.get(self.key(p), ()) for p in prompt_ids.tolist()]
        means = [sum(r) / len(r) if r else self.empty for r in past]
        return torch.tensor(means, dtype=torch.float64, device=prompt_ids.device)

    def extended(self, batch: Batch) -> RewardHistory:
        """This history followed by the returns of `batch`, in the order of its rows.

        A row without a single action token has no reward and is left out.
        """
        rewards = dict(self.rewards)
        batch = batch.rows(acting(batch).nonzero()[:, 0])
        for prompt, reward in zip(batch.prompt_ids.tolist(), batch.returns.tolist(), strict=True):
            key = self.key(prompt)
            rewards[key] = (*rewards.get(key, ()), reward)[-self.window :]
        return dataclasses.replace(self, rewards=MappingProxyType(rewards))
