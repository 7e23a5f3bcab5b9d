"""How fast does the trainer of full runs learn, beside a bare FSDP2 loop over the same model?

    make bench, or: .venv-full/bin/python -m benchmarks.bench_full_trainer [--repeats 9]

The bare loop is what nobody can leave out: transformers' forward pass (logits of responses only),
cross-entropy times a given weight, backward, Adam; for SAO as many fits of a value network more. No
advantage, no ratio, no agreement between ranks, no diagnostics. Both have the same weights and rollouts,
share them out evenly, and call `fully_shard` on each block and on the rest. One thread a rank, float32, gloo;
wall time. The aim is 1.10 times as long at the most.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from algorithms.rollout import Batch
from benchmarks.turns import seconds, times_as_long
from simulator.lab.parts import Lesson

METHODS: Final = ("grpo", "grpo_dis", "sao_running_mean", "sao_no_warm_up")
RATE: Final = 1e-6
GROUP: Final = 8


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model and its batch."""

    width: int
    depth: int
    heads: int
    vocabulary: int
    rollouts: int
    prompt_tokens: int
    response_tokens: int
    updates: int
    """In a turn."""

    @property
    def tokens(self) -> int:
        return self.rollouts * (self.prompt_tokens + self.response_tokens)


CASES: Final = {
    # What `policylag full tiny-cpu` does: next to nothing to compute.
    "tiny": Case(
        width=64, depth=2, heads=4, vocabulary=16, rollouts=64, prompt_tokens=8, response_tokens=4, updates=8
    ),
    "tiny, long": Case(
        width=64,
        depth=2,
        heads=4,
        vocabulary=16,
        rollouts=64,
        prompt_tokens=16,
        response_tokens=112,
        updates=2,
    ),
    "wide": Case(
        width=256,
        depth=4,
        heads=4,
        vocabulary=1024,
        rollouts=64,
        prompt_tokens=16,
        response_tokens=112,
        updates=1,
    ),
}


def lesson_of(case: Case) -> Lesson:
    """Random prompts and responses without padding, a random reward at the end of each, groups of eight."""
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, case.vocabulary, (case.rollouts, case.response_tokens), generator=draw)
    rewards = torch.zeros(tokens.shape)
    rewards[:, -1] = torch.rand(case.rollouts, generator=draw).round()
    group = torch.arange(case.rollouts) // GROUP
    return Lesson(
        prompts=torch.randint(0, case.vocabulary, (case.rollouts, case.prompt_tokens), generator=draw),
        batch=Batch(
            token_ids=tokens,
            action_mask=torch.ones_like(tokens, dtype=torch.bool),
            behaviour_log_probs=torch.zeros(tokens.shape),
            policy_versions=torch.zeros_like(tokens),
            rewards=rewards,
            prompt_ids=group,
            group_ids=group,
            truncated=torch.zeros(case.rollouts, dtype=torch.bool),
            temperature=torch.ones(case.rollouts),
        ),
    )


def bare_update(folder: str, lesson: Lesson, ranks: Any, critic_fits: int) -> Callable[[], None]:
    """An update by the bare loop."""
    from torch.distributed.fsdp import fully_shard
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # of reading one file
    mine = slice(ranks.rank, None, ranks.count)
    prompts, tokens = lesson.prompts[mine], lesson.batch.token_ids[mine]
    rows, width = torch.cat([prompts, tokens], dim=1), tokens.shape[1]
    weights = lesson.batch.rewards[mine].sum(1, keepdim=True).expand(tokens.shape) - 0.5
    share = ranks.count / lesson.batch.token_ids.numel()

    def sharded() -> tuple[Any, torch.optim.Optimizer]:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        for block in model.get_decoder().layers:
            fully_shard(block, mesh=ranks.mesh)
        fully_shard(model, mesh=ranks.mesh)
        return model, torch.optim.Adam(model.parameters(), lr=RATE, fused=True)

    policy, policy_optimizer = sharded()

    def policy_loss() -> Tensor:
        logits = policy(input_ids=rows, use_cache=False, logits_to_keep=width + 1).logits[:, :-1]
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
        return (nats * weights.flatten()).sum() * share

    def step(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    if not critic_fits:
        return lambda: step(policy_loss(), policy_optimizer)
    critic, critic_optimizer = bare_critic(folder, ranks)

    def update() -> None:
        for _ in range(critic_fits):
            step((critic(prompts, tokens) - weights).square().sum() * share, critic_optimizer)
        step(policy_loss(), policy_optimizer)

    return update


def bare_critic(folder: str, ranks: Any) -> tuple[Any, torch.optim.Optimizer]:
    """A value network as ours has it, attention frozen."""
    from algorithms.critic import freeze
    from full_runs.trainer.model import CausalCritic, CausalPolicy, load
    from full_runs.trainer.shard import sharded, single_precision
    from simulator.lab.methods import METHODS as ALL

    recipe = ALL["sao_no_warm_up"]().estimator.critic
    assert recipe is not None
    source, outline = CausalCritic(CausalPolicy(load(folder))), CausalCritic(CausalPolicy(load(folder)))
    freeze(outline, recipe.frozen)
    critic = sharded(outline, source, ranks, single_precision)
    trained = [p for p in critic.parameters() if p.requires_grad]
    return critic, torch.optim.Adam(trained, lr=RATE, fused=True)


def measure(name: str, folder: Path, repeats: int) -> None:
    """On each rank; the first one prints."""
    from full_runs.trainer.build import built
    from full_runs.trainer.config import TrainerConfig
    from full_runs.trainer.ranks import joined

    case, ranks = CASES[name], joined(device="cpu", timeout_s=120)
    lesson = lesson_of(case)
    for method in METHODS:
        trainer = built(TrainerConfig(model=str(folder), estimator=method, learning_rate=RATE), ranks)
        said = trainer.log_probs(lesson)
        drift = 0.1 * torch.randn(said.shape, generator=torch.Generator().manual_seed(1))
        lesson.batch.behaviour_log_probs.copy_((said + drift).clamp(max=0))
        fits = 0 if trainer.critic is None else trainer.critic.recipe.updates_per_policy_update
        bare = bare_update(str(folder), lesson, ranks, fits)

        def turn(update: Callable[[], object]) -> Callable[[], None]:
            def work() -> None:
                for _ in range(case.updates):
                    update()
                ranks.wait()

            return work

        works = turn(lambda trainer=trainer: trainer.update(lesson)), turn(bare)
        seconds(*works, repeats=1)  # allocations, plans of collectives
        ours, theirs = seconds(*works, repeats=repeats)
        if ranks.rank == 0:
            rates = [case.tokens * case.updates / min(side) for side in (ours, theirs)]
            where = f"{name}, {ranks.count} rank{'s' if ranks.count > 1 else ''}, {method}"
            print(
                f"{where:>35}: trainer {rates[0]:7,.0f} tokens/s, bare FSDP2 {rates[1]:7,.0f};"
                f" {times_as_long(ours, theirs)}",
                flush=True,
            )
    torch.distributed.destroy_process_group()


def start(name: str, folder: Path, ranks: int, repeats: int) -> None:
    """Ranks as `TrainerClient` starts them."""
    loopback = next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), "lo")
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback}
    command = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"]
    command += ["benchmarks.bench_full_trainer", "--case", name, "--folder", str(folder)]
    subprocess.run(
        [sys.executable, "-m", *command, "--repeats", str(repeats)],
        env=os.environ | environment,
        check=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--case", choices=list(CASES), help="one alone")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder is not None:
        measure(args.case, args.folder, args.repeats)
        return
    if importlib.util.find_spec("transformers") is None:
        print("full trainer: not measured, transformers is not installed here (make setup-full)")
        return
    from full_runs.tasks.tiny_model import TinyModel, made, save

    for name, case in CASES.items():
        if args.case not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            sizes = TinyModel(width=case.width, depth=case.depth, heads=case.heads)
            positions = case.prompt_tokens + case.response_tokens
            model = made(sizes, vocabulary=case.vocabulary, positions=positions)
            save(model, Path(folder), vocabulary=case.vocabulary)
            for ranks in args.ranks:
                start(name, Path(folder), ranks, args.repeats)


if __name__ == "__main__":
    main()
