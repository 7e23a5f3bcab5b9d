"""A world small enough to know: answer (a + b) mod 10, several times in a row.

A prompt is `questions` pairs (a, b). The model answers them one token each, and sees only its current
pair. The reward is the fraction it got right: one number for the whole rollout, on its last token, so
credit must be assigned. Known behaviour (three regimes of lag, by estimator) makes it a test of learners.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.draws import KeyedDraws
from simulator.lab.models.pairs import PairCritic, PairPolicy, question_numbers
from simulator.lab.models.table_sampler import TableSampler
from simulator.lab.models.tables import TableSpeaker
from simulator.lab.parts import Critic, Policy


def right_answers(modulus: int) -> Int[Tensor, " Q"]:
    """The right answer to every question, by question number."""
    terms = torch.arange(modulus)
    return ((terms[:, None] + terms) % modulus).flatten()


def correct(prompts: Int[Tensor, "B 2T"], answers: Int[Tensor, "B T"], modulus: int) -> Float[Tensor, "B T"]:
    """1 where the answer is right, 0 elsewhere."""
    a, b = prompts.chunk(2, dim=1)
    return ((a + b) % modulus == answers).to(torch.float32)


@final
class ModularAddition:
    """The world of one run.

    Args:
        modulus: V, size of the vocabulary.
        questions: answers in a rollout.
        hidden: width of the policy and of the critic.
        seed: of the run: its prompts, its samplers' uniforms and its starting weights.
    """

    def __init__(self, *, modulus: int, questions: int, hidden: int, seed: int) -> None:
        self.modulus = modulus
        self.questions = questions
        self._hidden = hidden
        self._generator = torch.Generator().manual_seed(seed)
        self._right = right_answers(modulus)[:, None]
        self._pairs = KeyedDraws(
            seed, "prompts", lambda rng, n: rng.integers(0, modulus, (n, 2 * questions), dtype=np.int64)
        )
        self._uniforms = KeyedDraws(
            seed, "sampling", lambda rng, n: rng.random((n, questions), dtype=np.float32)
        )

    def policy(self) -> PairPolicy:
        return PairPolicy(modulus=self.modulus, hidden=self._hidden, generator=self._generator)

    def critic(self, policy: Policy, /) -> Critic:
        if not isinstance(policy, PairPolicy):
            raise TypeError(f"this critic starts from a PairPolicy, got {type(policy).__name__}")
        return PairCritic(policy, generator=self._generator)

    def sampler(self) -> TableSampler:
        return TableSampler(
            prompts=self.prompts,
            uniforms=self.uniforms,
            contexts=lambda prompts, _: question_numbers(prompts, self.modulus),
            rewards=lambda prompts, answers: correct(prompts, answers, self.modulus).mean(-1),
        )

    def relative_length(self, prompt_id: int, /) -> float:  # noqa: ARG002 - all are alike
        return 1.0

    def measure(self, policy: Policy, update: int, /) -> dict[str, float]:  # noqa: ARG002 - at every one
        """Accuracy and entropy over all questions: no sampling error."""
        says = policy.snapshot()
        assert isinstance(says, TableSpeaker)
        table = says.table
        return {
            "accuracy": table.gather(-1, self._right).exp().mean().item(),
            "entropy": -(table.exp() * table).sum(-1).mean().item(),
        }

    def prompts(self, prompt_ids: NDArray[np.int64]) -> Int[Tensor, "B 2T"]:
        """The a's and the b's of these prompts."""
        return torch.from_numpy(self._pairs.rows(prompt_ids))

    def uniforms(self, rollout_ids: NDArray[np.int64]) -> Float[Tensor, "B T"]:
        """The number in [0, 1) that decides each answer token of these rollouts."""
        return torch.from_numpy(self._uniforms.rows(rollout_ids))
