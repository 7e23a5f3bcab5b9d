"""A world small enough to know: answer (a + b) mod 10, several times in a row.

A prompt is `questions` pairs (a, b). The model answers them one token each, and sees only its current
pair. The reward is the fraction it got right: one number for the whole rollout, on its last token, so
credit must be assigned. Known behaviour (three regimes of lag, by estimator) makes it a test of learners.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from algorithms.rollout import Batch
from simulator.lab.draws import KeyedDraws


class Questions(NamedTuple):
    """Pairs to add: rows are prompts, columns their questions in order."""

    a: Int[Tensor, "B T"]
    b: Int[Tensor, "B T"]

    def number(self, modulus: int) -> Int[Tensor, "B T"]:
        """Each question's place in a list of all of them."""
        return self.a * modulus + self.b


class Sampled(NamedTuple):
    """Answers and the log-probs that the sampling weights gave them, in nats."""

    answers: Int[Tensor, "B T"]
    log_probs: Float[Tensor, "B T"]


def right_answers(modulus: int) -> Int[Tensor, " Q"]:
    """The right answer to every question, by question number."""
    terms = torch.arange(modulus)
    return ((terms[:, None] + terms) % modulus).flatten()


def correct(questions: Questions, answers: Int[Tensor, "B T"], modulus: int) -> Float[Tensor, "B T"]:
    """1 where the answer is right, 0 elsewhere."""
    return ((questions.a + questions.b) % modulus == answers).to(torch.float32)


def answered(
    questions: Questions,
    sampled: Sampled,
    versions: Int[Tensor, "B T"],
    groups: Int[Tensor, " B"],
    *,
    modulus: int,
) -> Batch:
    """Sampled answers as the record that estimators read; the reward is the fraction right.

    Args:
        questions: pairs asked.
        sampled: answers and their behaviour log-probs.
        versions: updates behind the weights that sampled each token.
        groups: ids; rollouts of one group answer one prompt and share a baseline.
        modulus: of the addition.
    """
    rewards = torch.zeros_like(sampled.log_probs)
    rewards[:, -1] = correct(questions, sampled.answers, modulus).mean(-1)
    rows = len(groups)
    return Batch(
        token_ids=sampled.answers,
        action_mask=torch.ones_like(sampled.answers, dtype=torch.bool),
        behaviour_log_probs=sampled.log_probs,
        policy_versions=versions,
        rewards=rewards,
        prompt_ids=groups,
        group_ids=groups,
        truncated=torch.zeros(rows, dtype=torch.bool),
        temperature=torch.ones(rows),
    )


@final
class ModularAddition:
    """The prompts of one run and the uniforms that its samplers use, both by id.

    Args:
        modulus: V, size of the vocabulary.
        questions: answers in a rollout.
        seed: of the run.
    """

    def __init__(self, *, modulus: int, questions: int, seed: int) -> None:
        self.modulus = modulus
        self.questions = questions
        self._pairs = KeyedDraws(
            seed, "prompts", lambda rng, n: rng.integers(0, modulus, (n, 2, questions), dtype=np.int64)
        )
        self._uniforms = KeyedDraws(
            seed, "sampling", lambda rng, n: rng.random((n, questions), dtype=np.float32)
        )

    def prompts(self, prompt_ids: NDArray[np.int64]) -> Questions:
        """Questions of these prompts, `[B, T]` each."""
        pairs = torch.from_numpy(self._pairs.rows(prompt_ids))
        return Questions(pairs[:, 0], pairs[:, 1])

    def uniforms(self, rollout_ids: NDArray[np.int64]) -> Float[Tensor, "B T"]:
        """The number in [0, 1) that decides each answer token of these rollouts."""
        return torch.from_numpy(self._uniforms.rows(rollout_ids))
