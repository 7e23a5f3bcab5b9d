"""Engines that sample from published tables, whatever the policy behind them is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from algorithms.rollout import Batch
from simulator.lab.models.tables import Contexts, TableVersions, inverted
from simulator.lab.parts import Lesson, Speaker
from simulator.lab.traffic import Traffic

Rewards: TypeAlias = Callable[[Int[Tensor, "B P"], Int[Tensor, "B T"]], Float[Tensor, " B"]]
"""(prompts, responses) -> what each earned."""


@final
class TableSampler:
    """Engines that sample from published tables; every response has the same number of tokens.

    Args:
        prompts: (prompt ids) -> prompts.
        uniforms: (rollout ids) -> the number in [0, 1) that decides each token.
        contexts: as the policy's.
        rewards: earned on the last token.
    """

    def __init__(
        self,
        *,
        prompts: Callable[[NDArray[np.int64]], Int[Tensor, "B P"]],
        uniforms: Callable[[NDArray[np.int64]], Float[Tensor, "B T"]],
        contexts: Contexts,
        rewards: Rewards,
    ) -> None:
        self._prompts = prompts
        self._uniforms = uniforms
        self._contexts = contexts
        self._rewards = rewards
        self._versions = TableVersions()

    def publish(self, version: int, weights: Speaker, /) -> None:
        self._versions.publish(version, weights)

    def forget(self, before: int, /) -> None:
        self._versions.forget(before)

    def state(self) -> dict[str, Tensor]:
        return self._versions.state()

    def load_state(self, state: Mapping[str, Tensor], /) -> None:
        self._versions.load_state(state)

    def sample(self, traffic: Traffic, /) -> Lesson:
        prompts, uniforms = self._prompts(traffic.prompt_ids), self._uniforms(traffic.rollout_ids)
        rows, width = uniforms.shape
        versions = torch.from_numpy(traffic.versions(np.full(rows, width), width))
        tokens, said = self._said(prompts, uniforms, versions)
        rewards = torch.zeros_like(said)
        rewards[:, -1] = self._rewards(prompts, tokens)
        batch = Batch(
            token_ids=tokens,
            action_mask=torch.ones_like(tokens, dtype=torch.bool),
            behaviour_log_probs=said,
            policy_versions=versions,
            rewards=rewards,
            prompt_ids=torch.from_numpy(traffic.prompt_ids),
            group_ids=torch.from_numpy(traffic.group_ids),
            truncated=torch.zeros(rows, dtype=torch.bool),
            temperature=torch.ones(rows),
        )
        return Lesson(prompts=prompts, batch=batch)

    def _said(
        self, prompts: Int[Tensor, "B P"], uniforms: Float[Tensor, "B T"], versions: Int[Tensor, "B T"]
    ) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B T"]]:
        """Tokens and their log-probs.

        All positions are drawn at once, in the contexts that the last draw gave, until these stand still. A
        position is right once all before it are, so no more passes are needed than there are positions; a
        policy that sees its position alone needs one.
        """
        tokens = torch.zeros_like(versions)
        contexts = self._contexts(prompts, tokens)
        while True:
            log_probs = self._versions.log_probs(contexts, versions)
            tokens = inverted(log_probs, uniforms)
            seen, contexts = contexts, self._contexts(prompts, tokens)
            if torch.equal(seen, contexts):
                return tokens, log_probs.gather(-1, tokens[..., None]).squeeze(-1)
