"""How many updates a second does the learner make, beside the matrix products that it cannot avoid?

    python -m benchmarks.bench_learner [--updates 300] [--repeats 3]

The limit is the same networks' forward and backward passes on the same rollouts with a plain mean for a
loss and one optimizer step: no advantage, no ratio, no diagnostics. SAO's limit has K critic fits more. Time
is the processor's. The bar is 12 core-seconds for 1,000 updates of GRPO.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np
import torch

from benchmarks.turns import best_seconds
from simulator.experiments import LEARNERS
from simulator.lab.imposed import run_imposed
from simulator.lab.models.pairs import PairCritic, PairPolicy, question_numbers
from simulator.lab.student import Student
from simulator.lab.tasks.modular_addition import ModularAddition

ROLLOUTS, QUESTIONS, MODULUS, HIDDEN = 128, 8, 10, 64


def learn(name: str, updates: int) -> None:
    config = LEARNERS[name]()
    pipeline = config.pipeline.model_copy(update={"updates": updates, "updates_per_batch": 1})
    run_imposed(Student(config.model_copy(update={"pipeline": pipeline, "imposed_lag_updates": 0})))


def bare_passes(critic_fits: int, updates: int) -> None:
    generator = torch.Generator().manual_seed(0)
    policy = PairPolicy(modulus=MODULUS, hidden=HIDDEN, generator=generator)
    critic = PairCritic(policy, generator=generator)
    world = ModularAddition(modulus=MODULUS, questions=QUESTIONS, hidden=HIDDEN, seed=0)
    prompts = world.prompts(np.arange(ROLLOUTS))
    answers = torch.zeros(ROLLOUTS, QUESTIONS, dtype=torch.long)
    place = question_numbers(prompts, MODULUS) * MODULUS + answers
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3, fused=True) for m in (policy, critic)]
    for _ in range(updates):
        for loss, optimizer in [
            (lambda: policy().flatten()[place].mean(), optimizers[0]),
            *[(lambda: critic.values(prompts, answers).square().mean(), optimizers[1])] * critic_fits,
        ]:
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, critic_fits in (("grpo", 0), ("grpo-dis", 0), ("sao", 2)):
        works = (partial(learn, name, args.updates), partial(bare_passes, critic_fits, args.updates))
        learner_s, bare_s = best_seconds(*works, repeats=args.repeats, clock=time.process_time)
        print(
            f"{name}: learner {args.updates / learner_s:6,.0f} updates/s, bare passes"
            f" {args.updates / bare_s:6,.0f} updates/s, ratio {bare_s / learner_s:.2f};"
            f" 1,000 updates take {1000 * learner_s / args.updates:.1f} core-seconds"
        )


if __name__ == "__main__":
    main()
