"""What must a small world and its networks offer, so that they can learn under any schedule?

Shapes: `B` counts rollouts, `P` what a prompt is made of (for a language model, its tokens; fixed within a
task), `T` response tokens, observations and padding included.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, final

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algorithms.rollout import Batch
from simulator.lab.traffic import Traffic


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The rollouts of one update: what was asked, and what was said."""

    prompts: Int[Tensor, "B P"]
    batch: Batch
    left_out: Bool[Tensor, " B"] | None = None
    """Rollouts that nothing is to be learned from, such as those whose environment crashed; None where no
    rollout ever is."""

    def kept(self) -> Lesson:
        """The same, with no action token in what is left out.

        A row without an action token is nobody's peer, has no reward, and counts in no mean, whatever the
        estimator; so gradients are those of a batch that never had it.
        """
        if self.left_out is None:
            return self
        mask = self.batch.action_mask & ~self.left_out[:, None]
        return dataclasses.replace(self, batch=dataclasses.replace(self.batch, action_mask=mask))


class Speaker(Protocol):
    """Weights that never change: what a push puts into an engine, or what pi_old was."""

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        """log pi(tokens[t] | prompt, tokens[:t]) in nats at temperature 1; anything off the action tokens."""


class Policy(Protocol):
    """The network that is trained."""

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        """As a speaker's, and differentiable."""

    def snapshot(self) -> Speaker:
        """The same as it is now, for good."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def state_dict(self) -> Mapping[str, Tensor]: ...

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> object: ...


class Critic(Protocol):
    """The value network."""

    def values(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        """V(s_t) in units of reward, s_t = (prompt, tokens[:t]); anything off the action tokens."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


class Sampler(Protocol):
    """What the engines are: every version of the weights that they were given, and rollouts made by them."""

    def publish(self, version: int, weights: Speaker, /) -> None:
        """Engines hold these weights from now on.

        Raises:
            ValueError: `version` is not newer than all before it.
        """

    def forget(self, before: int, /) -> None:
        """Nothing will be sampled by versions older than this any more."""

    def state(self) -> dict[str, Tensor]:
        """Versions and weights, for a checkpoint."""

    def load_state(self, state: Mapping[str, Tensor], /) -> None:
        """Go back to what `state` returned."""

    def sample(self, traffic: Traffic, /) -> Lesson:
        """The rollouts that this update trains on, each token by the version that the schedule dictates.

        What is said depends on the rollout's id, its prompt and the weights alone: not on when it is asked
        for, nor on what else is in the batch.

        Raises:
            ValueError: a version that was never published, or was forgotten.
        """


class Task(Protocol):
    """A small world: prompts, rewards, and networks that fit it."""

    def policy(self) -> Policy:
        """The starting weights, equal for all arms of a seed."""

    def critic(self, policy: Policy, /) -> Critic:
        """A value network of the same family, initialised from the policy's starting weights."""

    def sampler(self) -> Sampler: ...

    def measure(self, policy: Policy, update: int, /) -> dict[str, float]:
        """How good is it now? `accuracy` and what else the task knows; NaN where it was not measured.

        Args:
            update: number of updates done. The keys are the same at each.
        """

    def relative_length(self, prompt_id: int, /) -> float:
        """Length of this prompt's rollouts over the mean: hard ones may be long. 1.0 if all are alike."""
