"""A Qwen3 small enough for a test, lessons for it, and the lab's learner beside it.

No size is a multiple of two ranks: 61 tokens, a hidden layer of 97.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from algorithms.rollout import Batch
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.model import CausalCritic, CausalPolicy, load
from simulator.lab.learner import Learner, adam, sgd
from simulator.lab.parts import Lesson

VOCABULARY = 61
ROLLOUTS = 8
WHY = "transformers is not installed: make full"
"""Why a test is skipped."""


def qwen(folder: Path, *, tied: bool = True, **sizes: Any) -> str:
    """A folder with a random Qwen3."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 97,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 64,
        "initializer_range": 0.1,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(Qwen3Config(**(config | {"tie_word_embeddings": tied} | sizes)))
    model.save_pretrained(folder)
    return str(folder)


def policy(folder: str) -> CausalPolicy:
    """Whole, on this process alone."""
    return CausalPolicy(load(folder))


def lesson(seed: int, *, rollouts: int = ROLLOUTS, truncated: bool = False) -> Lesson:
    """Prompts of 1 to 6 tokens, responses of 2 to 9 with observations, groups of four."""
    draw = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=draw))

    prompts = torch.full((rollouts, 6), -1)
    tokens = torch.full((rollouts, 9), -1)
    mask = torch.zeros(tokens.shape, dtype=torch.bool)
    rewards = torch.zeros(tokens.shape)
    for row in range(rollouts):
        asked, said = number(1, 6), number(2, 9)
        prompts[row, 6 - asked :] = torch.randint(0, VOCABULARY, (asked,), generator=draw)
        tokens[row, :said] = torch.randint(0, VOCABULARY, (said,), generator=draw)
        mask[row, :said] = torch.rand(said, generator=draw) < 0.8
        mask[row, 0] = True
        rewards[row, int(mask[row].nonzero().max())] = number(0, 1)
    # No group without a contrast.
    rewards[::4] = mask[::4] * 0.25
    return Lesson(
        prompts=prompts,
        batch=Batch(
            token_ids=tokens,
            action_mask=mask,
            behaviour_log_probs=torch.zeros(tokens.shape),
            policy_versions=torch.zeros_like(tokens),
            rewards=rewards,
            prompt_ids=torch.arange(rollouts) // 4,
            group_ids=torch.arange(rollouts) // 4,
            truncated=torch.arange(rollouts) % 2 == 1
            if truncated
            else torch.zeros(rollouts, dtype=torch.bool),
            temperature=torch.ones(rollouts),
        ),
    )


def sampled_by(speaker: Any, lesson: Lesson, *, off_nats: float = 0.0) -> Lesson:
    """The lesson as if this policy had said it; `off_nats` is the spread of an engine's mismatch."""
    with torch.no_grad():
        said = speaker.log_probs(lesson.prompts, lesson.batch.token_ids)
    noise = torch.randn(said.shape, generator=torch.Generator().manual_seed(1))
    batch = dataclasses.replace(lesson.batch, behaviour_log_probs=said + off_nats * noise)
    return Lesson(prompts=lesson.prompts, batch=batch)


def without_actions(lesson: Lesson, rows: Sequence[int]) -> Lesson:
    """The same tokens, of which the model chose none in these rows."""
    mask = lesson.batch.action_mask.clone()
    mask[list(rows)] = False
    return Lesson(prompts=lesson.prompts, batch=dataclasses.replace(lesson.batch, action_mask=mask))


def in_the_lab(config: TrainerConfig) -> Learner:
    """The simulator's learner on the same starting weights."""
    return Learner(
        config.method(),
        policy(config.model),
        CausalCritic,
        learning_rate=config.learning_rate,
        optimizer={"adam": adam, "sgd": sgd}[config.optimizer],
    )


def apart(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    """The largest difference between tensors of equal names."""
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def weights(module: torch.nn.Module) -> dict[str, Tensor]:
    """Every parameter, whole."""
    return {
        name: (p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone()
        for name, p in module.named_parameters()
    }
