"""How long does an update of full runs' trainer take, beside one of TRL's GRPOTrainer on the same rollouts?

    make bench, or: .venv-oracles/bin/python -m benchmarks.bench_full_trl [--repeats 9]

The same Qwen3 with random weights, the same prompts, responses and rewards, one process, one thread, float32.
Nothing is sampled: what that adds to TRL's step is in `bench_trl`. Two comparisons:

- `update`: from tensors to new weights. Ours is `Trainer.update`, FSDP2 on one rank: advantages from rewards,
  loss, backward, Adam, the gradient's norm, diagnostics. Theirs is `training_step` (loss, backward, its
  metrics, which have no switch) on tensors with their advantages, and the optimizer's step, without FSDP,
  and without the loop around it. So this one is in TRL's favour.
- `step`: from responses, as lists of tokens, and rewards to new weights. Ours has `batch_of` before the
  update; theirs goes through its own preparation, with a `rollout_func` that returns the responses: padding,
  decoding to text, rewards, advantages, metrics.

Before anything is timed, loss and gradients of both are compared. The processor's time, by turns. The aim is
at most as long as theirs.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from algorithms.rollout import Rollout
from benchmarks.bench_full_trainer import CASES, GROUP, RATE, Case, lesson_of
from benchmarks.trl_trainer import grpo_trainer, letter, quiet
from benchmarks.turns import seconds, times_as_long
from full_runs.tasks.tiny_model import TinyModel, made, save
from full_runs.trainer.message import batch_of, prompts_of
from full_runs.trainer.ranks import Ranks, local
from full_runs.trainer.update import Trainer
from simulator.lab.parts import Lesson

Update = Callable[[], float]
"""One update; its loss."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two trainers."""

    update: Update
    """From tensors to new weights."""
    step: Update
    """From responses and rewards to new weights."""
    optimizer: torch.optim.Optimizer
    weights: dict[nn.Parameter, str]
    """Names are equal on both sides."""


TOLERANCE = 1e-5


def rollouts_of(lesson: Lesson) -> list[Rollout]:
    """The same without tensors, as engines hand them over."""
    batch = lesson.batch
    return [
        Rollout(
            prompt_id=int(batch.prompt_ids[row]),
            group_id=int(batch.group_ids[row]),
            token_ids=tuple(batch.token_ids[row].tolist()),
            action_mask=tuple(batch.action_mask[row].tolist()),
            behaviour_log_probs=tuple(batch.behaviour_log_probs[row].tolist()),
            policy_versions=tuple(batch.policy_versions[row].tolist()),
            reward=float(batch.returns[row]),
        )
        for row in range(len(batch.token_ids))
    ]


def ours(trainer: Trainer, lesson: Lesson) -> Side:
    """Our trainer, on these rollouts."""
    rollouts, prompts = rollouts_of(lesson), lesson.prompts.tolist()

    def step() -> float:
        return trainer.update(Lesson(prompts=prompts_of(prompts), batch=batch_of(rollouts)))["loss"]

    return Side(
        update=lambda: trainer.update(lesson)["loss"],
        step=step,
        optimizer=trainer.optimizer,
        weights={p: name.removeprefix("model.") for name, p in trainer.parameters.items()},
    )


def theirs(folder: str, case: Case, lesson: Lesson, advantages: Tensor) -> Side:
    """Their trainer at the folder's weights, on these rollouts."""
    from transformers import AutoModelForCausalLM
    from trl import GRPOTrainer

    class OfGivenTensors(GRPOTrainer):  # type: ignore[misc]
        def _prepare_inputs(self, generation_batch: Any) -> Any:
            given = isinstance(generation_batch, dict)
            return generation_batch if given else super()._prepare_inputs(generation_batch)

    batch = lesson.batch
    sampled = {
        "prompt_ids": lesson.prompts.tolist(),
        "completion_ids": batch.token_ids.tolist(),
        "logprobs": batch.behaviour_log_probs.tolist(),
    }
    rewards = batch.returns.tolist()
    trainer = grpo_trainer(
        OfGivenTensors,
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        folder=folder,
        prompts=lesson.prompts[::GROUP].tolist(),
        columns={},
        vocabulary=case.vocabulary,
        end=case.vocabulary,
        reward=lambda **_: rewards,
        rollouts=case.rollouts,
        group=GROUP,
        most_tokens=case.response_tokens,
        updates=1,
        learning_rate=RATE,
        rollout_func=lambda *_: sampled,
    )
    # What `train()` does before its loop.
    trainer.create_optimizer()
    model, optimizer = trainer.accelerator.prepare(trainer.model, trainer.optimizer)
    trainer.current_gradient_accumulation_steps = 1
    tensors = {
        "prompt_ids": lesson.prompts,
        "prompt_mask": torch.ones_like(lesson.prompts),
        "completion_ids": batch.token_ids,
        "completion_mask": batch.action_mask.long(),
        "advantages": advantages,
        "old_per_token_logps": batch.old_log_probs,
    }
    rows = [{"prompt": " ".join(map(letter, prompt))} for prompt in lesson.prompts.tolist()]

    def trained(inputs: object) -> float:
        loss = trainer.training_step(model, inputs, None)
        optimizer.step()
        optimizer.zero_grad()
        return float(loss)

    return Side(
        update=lambda: trained(tensors),
        step=lambda: trained(rows),
        optimizer=optimizer.optimizer,  # accelerate has wrapped it
        weights={p: name for name, p in model.named_parameters()},
    )


def gradients(side: Side) -> dict[str, Tensor]:
    """Of each weight by its name; filled by the next step that the optimizer makes."""
    seen: dict[str, Tensor] = {}

    def look(*_: Any) -> None:
        for parameter, name in side.weights.items():
            assert parameter.grad is not None
            seen[name] = local(parameter.grad).detach().clone()
        hook.remove()

    hook = side.optimizer.register_step_pre_hook(look)
    return seen


def check(mine: Side, other: Side) -> None:
    """Raises if loss or gradients of the two are not the same at the same weights."""
    my_gradients, other_gradients = gradients(mine), gradients(other)
    losses = mine.update(), other.update()
    torch.testing.assert_close(*map(torch.tensor, losses), atol=TOLERANCE, rtol=0)
    largest = max(float(gradient.abs().max()) for gradient in my_gradients.values())
    assert largest > 100 * TOLERANCE, f"gradients are at most {largest}: nothing would be shown"
    torch.testing.assert_close(my_gradients, other_gradients, atol=TOLERANCE, rtol=0)


def compared(name: str, mine: Update, other: Update, updates: int, repeats: int) -> str:
    def turn(update: Update) -> Callable[[], None]:
        def work() -> None:
            for _ in range(updates):
                update()

        return work

    works = turn(mine), turn(other)
    seconds(*works, repeats=1)  # allocations, and what is made once
    took = seconds(*works, repeats=repeats, clock=time.process_time)
    ms = [1000 * min(side) / updates for side in took]
    return f"{name:>18}: ours {ms[0]:7.1f} ms, TRL {ms[1]:7.1f}; {times_as_long(*took)}"


def measure(name: str, case: Case, ranks: Ranks, repeats: int) -> None:
    from full_runs.trainer.build import built
    from full_runs.trainer.config import TrainerConfig

    lesson = lesson_of(case)
    with tempfile.TemporaryDirectory() as folder:
        sizes = TinyModel(width=case.width, depth=case.depth, heads=case.heads)
        positions = case.prompt_tokens + case.response_tokens
        model = made(sizes, vocabulary=case.vocabulary, positions=positions)
        save(model, Path(folder), vocabulary=case.vocabulary)
        config = TrainerConfig(model=folder, estimator="grpo", eps_low=0.2, eps_high=0.2, learning_rate=RATE)
        trainer = built(config, ranks)
        # What older weights said is near what these say: some ratios are clipped, most are not.
        now = trainer.log_probs(lesson)
        drift = 0.1 * torch.randn(now.shape, generator=torch.Generator().manual_seed(1))
        older = dataclasses.replace(lesson.batch, old_log_probs=(now + drift).clamp(max=0))
        lesson = dataclasses.replace(lesson, batch=older)
        advantages = trainer.method.estimator.advantage(older)[:, 0]
        mine, other = ours(trainer, lesson), theirs(folder, case, lesson, advantages)
        check(mine, other)
        print(compared(f"{name}, update", mine.update, other.update, case.updates, repeats), flush=True)
        print(compared(f"{name}, step", mine.step, other.step, case.updates, repeats), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--case", choices=list(CASES), help="one alone")
    args = parser.parse_args()
    if importlib.util.find_spec("trl") is None:
        print("trl: not measured, not installed here (make oracles)")
        return
    torch.set_num_threads(1)
    print(f"{quiet()}; one thread, float32, 64 rollouts an update in groups of {GROUP}")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    ranks = Ranks(mesh=init_device_mesh("cpu", (1,)), rank=0, count=1, device=torch.device("cpu"))
    for name, case in CASES.items():
        if args.case in (None, name):
            measure(name, case, ranks, args.repeats)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
