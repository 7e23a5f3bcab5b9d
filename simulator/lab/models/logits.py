"""Policies that are nothing but logits: one row a context, every response within reach of a sum.

No network stands between parameters and log-probs, so what an estimator should do to them is known exactly.
The critic is a table too, one cell a state. Both are told what a context, or a state, is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from algorithms.rollout import Batch
from simulator.lab.models.tables import Contexts, Table, TableSpeaker, TableVersions, inverted, of_tokens
from simulator.lab.parts import Lesson, Speaker
from simulator.lab.traffic import Traffic

Says: TypeAlias = Callable[[Tensor], Table]
"""Logits -> log-probability of every token in every context."""

Rewards: TypeAlias = Callable[[Int[Tensor, "B P"], Int[Tensor, "B T"]], Float[Tensor, " B"]]
"""(prompts, responses) -> what each earned."""


def softmax(logits: Float[Tensor, "C V"]) -> Table:
    """A logit for every token of every context."""
    return logits.log_softmax(-1)


def bernoulli(logits: Float[Tensor, " C"]) -> Table:
    r"""Two tokens and one logit: token 1 has probability :math:`1 / (1 + e^{-z})`."""
    return nn.functional.logsigmoid(torch.stack([-logits, logits], dim=-1))


@final
class LogitPolicy(nn.Module):
    """A table of logits under training.

    Args:
        logits: the starting weights.
        says: what they mean, `softmax` or `bernoulli`.
        contexts: the row that chose each token; it must not depend on that token or a later one.
    """

    def __init__(self, logits: Tensor, *, says: Says, contexts: Contexts) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits.clone())
        self.says = says
        self.contexts = contexts

    def forward(self) -> Table:
        """What the policy says in every context."""
        return self.says(self.logits)

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        return of_tokens(self(), self.contexts(prompts, tokens), tokens)

    def snapshot(self) -> TableSpeaker:
        with torch.no_grad():
            return TableSpeaker(self(), self.contexts)


@final
class CellCritic(nn.Module):
    """A value for every state; all start at zero, below any reward.

    Args:
        cells: number of states.
        states: the state before each token, numbered; as for a policy, it must not depend on that token.
    """

    def __init__(self, cells: int, *, states: Contexts) -> None:
        super().__init__()
        self.cells = nn.Parameter(torch.zeros(cells))
        self.states = states

    def values(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        return self.cells[self.states(prompts, tokens)]


@final
class LogitSampler:
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
