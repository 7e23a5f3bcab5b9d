"""How many core-minutes do 1,000 updates of the small language model take, and how much is arithmetic?

    python -m benchmarks.bench_gpt [--updates 5] [--repeats 2]

An update samples 128 rollouts of 64 tokens after prompts of 8, and trains on them: GRPO's kind is one forward
and backward pass of the policy and a step of Adam; SAO's has two fits of a critic with frozen attentions
more, whose first forward pass is also its evaluation. The limit is the matrix products of the same shapes
alone, attention's included, through the same calls. What an estimator and a schedule add is left out. Time is
the processor's, not the wall's; on cores that share their units with busy ones it is longer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from algorithms.critic import attention_modules, freeze
from simulator.lab.models.decoding import converse
from simulator.lab.models.gpt import FrozenGpt, Gpt, Sizes
from simulator.lab.models.gpt_critic import GptCritic
from simulator.lab.tasks.game import CHOOSE

ROLLOUTS, ASKED, SAID, VOCABULARY = 128, 8, 64, 16
READ = ASKED + SAID - 1


def least_core_seconds(*works: Callable[[], object], repeats: int) -> list[float]:
    """The least of `repeats` runs of each, taking turns."""

    def seconds(work: Callable[[], object]) -> float:
        start = time.thread_time()
        work()
        return time.thread_time() - start

    rounds = [[seconds(work) for work in works] for _ in range(repeats)]
    return [min(column) for column in zip(*rounds, strict=True)]


class Talk:
    """The model talks until it is cut."""

    vocabulary, prompt_tokens, response_tokens = VOCABULARY, ASKED, SAID

    def follow(self, prompts: Tensor, tokens: Tensor, position: int, /) -> Tensor:  # noqa: ARG002
        return torch.full_like(prompts[:, 0], CHOOSE)


class Updates:
    """Policy, critic, and what they are asked."""

    def __init__(self, sizes: Sizes) -> None:
        self.generator = torch.Generator().manual_seed(0)
        self.policy = self.network(sizes)
        self.critic = GptCritic(self.policy)
        freeze(self.critic, attention_modules)
        self.prompts = torch.randint(VOCABULARY, (ROLLOUTS, ASKED), generator=self.generator)
        self.uniforms = torch.rand(ROLLOUTS, SAID, generator=self.generator)
        self.optimizers = [
            torch.optim.Adam([p for p in m.parameters() if p.requires_grad], lr=1e-4, fused=True)
            for m in (self.policy, self.critic)
        ]

    def network(self, sizes: Sizes) -> Gpt:
        return Gpt(sizes, vocabulary=VOCABULARY, positions=ASKED + SAID, generator=self.generator)

    def sample(self, speakers: list[FrozenGpt]) -> Tensor:
        """Rollouts spread over the versions, with a push in the middle of half of them."""
        rows = torch.arange(ROLLOUTS) % len(speakers)
        crossed = (torch.arange(SAID) >= SAID // 2) & (torch.arange(ROLLOUTS) % 2 == 1)[:, None]
        versions = (rows[:, None] + crossed).clamp(max=len(speakers) - 1)
        return converse(Talk(), self.prompts, speakers, versions, self.uniforms).tokens  # type: ignore[arg-type]

    def learn(self, critic_fits: int, updates: int) -> None:
        for _ in range(updates):
            tokens = self.sample([self.policy.snapshot()])
            for fit in range(critic_fits + 1):
                says = self.critic.values if fit < critic_fits else self.policy.log_probs
                optimizer = self.optimizers[fit < critic_fits]
                optimizer.zero_grad()
                says(self.prompts, tokens).square().mean().backward()
                optimizer.step()


class Products:
    """The matrix products that an update cannot avoid, and nothing else."""

    def __init__(self, sizes: Sizes) -> None:
        width, inner = sizes.width, sizes.expansion * sizes.width
        maps = [(3 * width, width), (width, width), (inner, width), (width, inner)]
        self.layers = [[torch.randn(shape) for shape in maps] for _ in range(sizes.depth)]
        self.head = torch.randn(VOCABULARY, width)
        self.per_head = (ROLLOUTS * sizes.heads, width // sizes.heads)

    def forward(self, rows: int, matrices: list[Tensor]) -> None:
        for matrix in matrices:
            functional.linear(torch.empty(rows, matrix.shape[1]), matrix)

    def backward(self, rows: int, matrices: list[Tensor], *, weights: bool) -> None:
        for matrix in matrices:
            gradient = torch.empty(rows, matrix.shape[0])
            torch.mm(gradient, matrix)
            if weights:
                torch.mm(gradient.t(), torch.empty(rows, matrix.shape[1]))

    def attend(self, queries: int, keys: int, passes: int) -> None:
        count, size = self.per_head
        query, key = torch.empty(count, queries, size), torch.empty(count, keys, size)
        for _ in range(passes):
            torch.bmm(torch.bmm(query, key.transpose(1, 2)), key)

    def trained(self, *, attention_weights: bool) -> None:
        said, read = ROLLOUTS * SAID, ROLLOUTS * READ
        for number, layer in enumerate(self.layers):
            rows = said if number + 1 == len(self.layers) else read
            for part, size, weights in (
                (layer[:1], read, attention_weights),
                (layer[1:2], rows, attention_weights),
                (layer[2:], rows, True),
            ):
                self.forward(size, part)
                self.backward(size, part, weights=weights)
            self.attend(READ, READ, 3)
        self.forward(said, [self.head])
        self.backward(said, [self.head], weights=True)

    def sampled(self) -> None:
        self.forward(ROLLOUTS * (ASKED - 1), [m for layer in self.layers[:-1] for m in layer])
        self.forward(ROLLOUTS * (ASKED - 1), self.layers[-1][:1])
        for position in range(SAID):
            for layer in self.layers:
                self.forward(ROLLOUTS, layer)
                self.attend(1, ASKED + position, 1)
            self.forward(ROLLOUTS, [self.head])

    def learn(self, critic_fits: int, updates: int) -> None:
        for _ in range(updates):
            self.sampled()
            self.trained(attention_weights=True)
            for _ in range(critic_fits):
                self.trained(attention_weights=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    updates, products = Updates(Sizes()), Products(Sizes())
    for name, fits in (("GRPO", 0), ("SAO", 2)):
        took, limit = least_core_seconds(
            lambda fits=fits: updates.learn(fits, args.updates),
            lambda fits=fits: products.learn(fits, args.updates),
            repeats=args.repeats,
        )
        minutes = took / args.updates * 1000 / 60
        print(
            f"{name}: 1,000 updates in {minutes:.1f} core-minutes; the products are {limit / took:.2f} of it"
        )
    speakers = [updates.network(Sizes()).snapshot() for _ in range(8)]
    one, eight = least_core_seconds(
        lambda: updates.sample(speakers[:1]), lambda: updates.sample(speakers), repeats=2 * args.repeats
    )
    print(f"sampling with 8 versions takes {eight / one:.2f} times what it takes with one")


if __name__ == "__main__":
    main()
