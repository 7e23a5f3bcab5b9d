"""What is known about a rollout, and how do many of them become tensors?

A `Rollout` is what an engine hands over: plain numbers, one trajectory, no tensors.
A `Batch` is what an estimator reads: right-padded tensors, many trajectories.

In shapes, `B` counts rollouts and `T` response tokens (padding included). A response holds the
tokens that the model chose (actions) and the tokens that an environment returned (observations).
"""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_PER_TOKEN = ("token_ids", "action_mask", "behaviour_log_probs", "policy_versions")
_PER_ROLLOUT = ("prompt_ids", "group_ids", "truncated", "temperature", "bootstrap_values", "baselines")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One finished trajectory and everything known about how it was sampled.

    Raises:
        ValueError: per-token fields of unequal or zero length, no action token, a non-finite
            reward or behaviour log-prob of an action token, a reward on an observation, or a
            temperature that is not positive.
    """

    prompt_id: int
    group_id: int
    """Rollouts that share a baseline share it. Equal prompts with other ids stay apart."""
    token_ids: tuple[int, ...]
    """The response; the prompt is context only and is not repeated here."""
    action_mask: tuple[bool, ...]
    """True where the model chose the token, False for observations."""
    behaviour_log_probs: tuple[float, ...]
    """log mu(a_t | s_t) in nats, by the weights *and the engine* that sampled the token."""
    policy_versions: tuple[int, ...]
    """Optimizer updates behind the weights that sampled the token."""
    reward: float | tuple[float, ...]
    """A number is terminal and lands on the last action token; a tuple is per token."""
    truncated: bool = False
    """True if a length cap cut the rollout; False if it ended by itself (terminated)."""
    temperature: float = 1.0
    """Sampling temperature, already inside `behaviour_log_probs`."""

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in _PER_TOKEN}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise ValueError(f"per-token fields must share one positive length, got {lengths}")
        if not any(self.action_mask):
            raise ValueError("action_mask has no True: a rollout needs a token that the model chose")
        if isinstance(self.reward, tuple) and len(self.reward) != len(self.token_ids):
            raise ValueError(f"reward has {len(self.reward)} entries for {len(self.token_ids)} tokens")
        if not all(map(math.isfinite, self.token_rewards)):
            raise ValueError(f"reward must be finite, got {self.reward}")
        for t, (chosen, reward) in enumerate(zip(self.action_mask, self.token_rewards, strict=True)):
            if reward and not chosen:
                # No estimator reads an observation: the reward would be lost without a trace.
                raise ValueError(f"reward[{t}] = {reward} sits on an observation, where it would be lost")
        for t, (chosen, log_prob) in enumerate(zip(self.action_mask, self.behaviour_log_probs, strict=True)):
            if chosen and not (math.isfinite(log_prob) and log_prob <= 1e-6):
                raise ValueError(f"behaviour_log_probs[{t}] must be a finite log-prob, got {log_prob}")
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be positive, got {self.temperature}")

    @property
    def terminated(self) -> bool:
        """The rollout ended by itself, so no value follows its last token."""
        return not self.truncated

    @property
    def token_rewards(self) -> tuple[float, ...]:
        """Reward of each token; a terminal reward sits on the last token that the model chose."""
        if isinstance(self.reward, tuple):
            return self.reward
        after = self.action_mask[::-1].index(True)
        return (*(0.0,) * (len(self.token_ids) - 1 - after), self.reward, *(0.0,) * after)

    def oldest_lag(self, trainer_version: int) -> int:
        """Updates between the oldest action token's weights and `trainer_version`.

        The oldest token decides admission and dropping.
        """
        versions = zip(self.policy_versions, self.action_mask, strict=True)
        return trainer_version - min(v for v, chosen in versions if chosen)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Right-padded rollouts. Entries where `action_mask` is False carry no meaning for a loss.

    Padding differs from an observation in nothing that an estimator reads.

    Raises:
        ValueError: a field whose shape disagrees with `action_mask`.
    """

    token_ids: Int[Tensor, "B T"]
    action_mask: Bool[Tensor, "B T"]
    behaviour_log_probs: Float[Tensor, "B T"]
    policy_versions: Int[Tensor, "B T"]
    rewards: Float[Tensor, "B T"]
    """Reward of each token; a terminal one on the last action token."""
    prompt_ids: Int[Tensor, " B"]
    group_ids: Int[Tensor, " B"]
    truncated: Bool[Tensor, " B"]
    temperature: Float[Tensor, " B"]
    values: Float[Tensor, "B T"] | None = None
    """Critic's V(s_t), s_t holding everything before token t; in units of reward."""
    bootstrap_values: Float[Tensor, " B"] | None = None
    """Critic's value of the state after the last token; read where `truncated`."""
    baselines: Float[Tensor, " B"] | None = None
    """Reward expected of each rollout before it was seen, such as its prompt's running mean."""
    old_log_probs: Float[Tensor, "B T"] | None = None
    """log pi_old: the trainer's own weights when it took this batch, before any of its updates."""
    proximal_log_probs: Float[Tensor, "B T"] | None = None
    """The trainer's own log-probs at the *behaviour* version: engine mismatch without staleness."""
    reference_log_probs: Float[Tensor, "B T"] | None = None
    """log-probs under a policy that does not move, which a KL term pulls toward."""

    def __post_init__(self) -> None:
        rows, width = self.action_mask.shape
        for field in dataclasses.fields(self):
            tensor = getattr(self, field.name)
            if tensor is None:
                continue
            wanted = (rows,) if field.name in _PER_ROLLOUT else (rows, width)
            if tuple(tensor.shape) != wanted:
                raise ValueError(f"{field.name} has shape {tuple(tensor.shape)}, action_mask {(rows, width)}")

    @property
    def returns(self) -> Float[Tensor, " B"]:
        """Undiscounted sum of each rollout's rewards, over its action tokens."""
        # Never summed in half precision: 1000 rewards of 0.01 would come to 4.
        wide = torch.promote_types(self.rewards.dtype, torch.float32)
        return self.rewards.where(self.action_mask, 0.0).sum(-1, dtype=wide)

    @property
    def action_tokens(self) -> Int[Tensor, " B"]:
        """Tokens that the model chose, by rollout."""
        return self.action_mask.sum(-1)

    def lag(self, trainer_version: int) -> Int[Tensor, "B T"]:
        """Updates between each token's weights and `trainer_version`; 0 off the action tokens."""
        return (trainer_version - self.policy_versions).where(self.action_mask, 0)

    def rows(self, index: slice | Int[Tensor, " b"]) -> Batch:
        """The same records for some rollouts: a micro-batch, a rank's shard, a mini-batch."""
        return dataclasses.replace(
            self,
            **{
                field.name: tensor[index]
                for field in dataclasses.fields(self)
                if (tensor := getattr(self, field.name)) is not None
            },
        )

    @classmethod
    def from_rollouts(cls, rollouts: Sequence[Rollout], *, dtype: torch.dtype = torch.float32) -> Batch:
        """Pad rollouts to the longest of them.

        Raises:
            ValueError: `rollouts` is empty.
        """
        if not rollouts:
            raise ValueError("a batch needs at least one rollout, got none")
        lengths = torch.tensor([len(r.token_ids) for r in rollouts])
        there = torch.arange(int(lengths.max())) < lengths[:, None]

        def pad(name: str, kind: torch.dtype) -> Tensor:
            # One array for all: a tensor of each row would take ten times as long where rows are short.
            code = "d" if kind.is_floating_point else "q"
            values = array(code, chain.from_iterable(getattr(rollout, name) for rollout in rollouts))
            flat = torch.frombuffer(values, dtype=torch.float64 if code == "d" else torch.int64)
            return torch.zeros(there.shape, dtype=kind).masked_scatter(there, flat.to(kind))

        return cls(
            token_ids=pad("token_ids", torch.long),
            action_mask=pad("action_mask", torch.bool),
            behaviour_log_probs=pad("behaviour_log_probs", dtype),
            policy_versions=pad("policy_versions", torch.long),
            rewards=pad("token_rewards", dtype),
            prompt_ids=torch.tensor([r.prompt_id for r in rollouts]),
            group_ids=torch.tensor([r.group_id for r in rollouts]),
            truncated=torch.tensor([r.truncated for r in rollouts]),
            temperature=torch.tensor([r.temperature for r in rollouts], dtype=dtype),
        )
