"""What each of two ranks does for `test_ranks`, started with torchrun: `two_ranks.py FOLDER MODEL`.

One start for many checks: starting is what takes time. Results go into the folder, from every rank.
"""

import json
import sys
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from full_runs.trainer import checkpoint
from full_runs.trainer.build import built
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.message import from_bytes, to_lesson
from full_runs.trainer.ranks import Ranks, joined, total_norm
from full_runs.trainer.weights import save_weights
from simulator.lab.parts import Lesson

NAMES = ("grpo_dis", "sao", "few", "masked", "broken")
SAVED_AFTER = 2


def config(model: str, name: str) -> TrainerConfig:
    """What is trained, by the name of the check."""
    if name == "grpo_dis":
        return TrainerConfig(model=model, estimator="grpo_dis", learning_rate=1e-3, tokens_at_once=24)
    if name == "sao":
        return TrainerConfig(model=model, estimator="sao_no_warm_up", learning_rate=1e-3)
    calm = {"critic_only_updates": 0, "learning_rate_ratio": 1}
    return TrainerConfig(
        model=model, estimator="sao", learning_rate=0.02, optimizer="sgd", critic=calm, tokens_at_once=24
    )


def lessons(folder: Path, name: str) -> list[Lesson]:
    """In their order."""
    files = sorted(folder.glob(f"{name}-lesson-*"))
    return [to_lesson(from_bytes(file.read_bytes()).tensors, torch.device("cpu")) for file in files]


def norm_of_three_and_four(ranks: Ranks) -> list[float]:
    """A weight of two numbers on two ranks, with gradients 3 and 4."""
    module = nn.Linear(1, 2, bias=False)
    fully_shard(module, mesh=ranks.mesh)
    (module(torch.ones(1, 1)) * torch.tensor([3.0, 4.0])).sum().backward()
    return [total_norm([module.weight.grad]), float(module.weight.grad.to_local())]


def main(folder: Path, model: str) -> None:
    ranks = joined(device="cpu", timeout_s=120)
    seen: dict[str, object] = {"norm": norm_of_three_and_four(ranks)}
    for name in NAMES:
        trainer, metrics = built(config(model, name), ranks), []
        for lesson in lessons(folder, name):
            metrics.append(trainer.update(lesson))
            if len(metrics) == SAVED_AFTER:
                checkpoint.save(trainer, folder / f"{name}-checkpoint", owner={"name": name})
        seen[name] = metrics
        seen[f"{name}-parts"] = [list(p.to_local().shape) for p in trainer.parameters.values()]
        save_weights(trainer.policy, folder / f"{name}-weights", ranks, dtype=torch.float32)
    (folder / f"seen-{ranks.rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
