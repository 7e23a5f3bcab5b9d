"""How many rollouts a second does the lab sample and learn from, beside TRL's GRPOTrainer?

    make bench, or: .venv-oracles/bin/python -m benchmarks.bench_trl [--updates 6] [--repeats 3]

Both start from the same weights (a GPT-2 of transformers' with our matrices in it, no bias and no gain; what
they say is compared before anything is timed), get the same prompts and rewards, and do the same: sample 16
prompts x 8 rollouts at temperature 1 with a cache of keys and values, then one forward and backward pass of
GRPO's loss with advantages centred on a group, and a step of Adam. One core each, in float32.

- `carry addition` is the lab's world as studies run it (`Student` at an imposed lag of 0; log, ledger and
  diagnostics included, measurement on held-out prompts not), from its warm start. Both may stop; tokens are
  counted on both sides.
- `64 tokens` has answers of exactly 64 tokens after prompts of 8. TRL's end of a text lies outside the
  vocabulary, so nothing has to be suppressed.

What GRPOTrainer can leave out, it does: see `trl_trainer`. Its metrics and its decoding of tokens to text
have no switch.

Times are the processor's, from the end of the first update to that of the last, the best of short turns taken
in alternation. The aim is five times TRL's rollouts a second. The matrix products of `bench_gpt`, which both
have to do, bound it: TRL's time over theirs. https://pypi.org/project/trl/.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.bench_gpt import Talk
from benchmarks.gpt2_twin import check_twin, twin
from benchmarks.trl_trainer import grpo_trainer, quiet
from simulator.experiments import groups
from simulator.lab.config import LearnConfig
from simulator.lab.imposed import imposed_traffic, run_imposed
from simulator.lab.learner import Learner
from simulator.lab.methods import METHODS
from simulator.lab.models.gpt import Gpt, Sizes
from simulator.lab.models.warm_start import game_network
from simulator.lab.student import Student
from simulator.lab.tasks.carry_addition import STOP, CarryAddition
from simulator.lab.tasks.played import Played
from simulator.lab.worlds import CarryAdditionWorld

ROLLOUTS, GROUP, RATE = 128, 8, 1e-4


class Turn(NamedTuple):
    """One short run: the processor's time at the end of each update, and what was sampled for each."""

    ends_s: list[float]
    tokens: list[int]

    def seconds(self) -> float:
        """Of one update; the first one is not counted."""
        return (self.ends_s[-1] - self.ends_s[0]) / (len(self.ends_s) - 1)

    def tokens_a_rollout(self) -> float:
        return sum(self.tokens) / len(self.tokens) / ROLLOUTS


@dataclass(frozen=True, kw_only=True)
class Contest:
    """One task on both sides."""

    name: str
    network: Gpt
    """Its weights are where both start."""
    prompts: Tensor
    answers: list[list[int]]
    """Of each prompt; empty if none is right."""
    most_tokens: int
    end: int
    """Token that ends a response."""
    reward: Callable[..., list[float]]
    ours: Callable[[int], Turn]
    """(updates) -> a turn of the lab's."""


class EvenTalk(Talk):
    """Exactly 64 tokens; the more even ones, the better."""

    def rewards(self, prompts: Tensor, tokens: Tensor, action_mask: Tensor, /) -> Tensor:  # noqa: ARG002
        return (tokens % 2 == 0).float().mean(-1)

    def prompts(self, prompt_ids: np.ndarray[Any, Any], /) -> Tensor:
        place = torch.from_numpy(prompt_ids)[:, None] * self.prompt_tokens + torch.arange(self.prompt_tokens)
        return place * 7919 % 10007 % self.vocabulary

    def said_tokens(self, prompts: Tensor, /) -> Tensor:
        return torch.full_like(prompts[:, 0], self.response_tokens)


def right_or_not(completion_ids: list[list[int]], answer: list[list[int]], **_: Any) -> list[float]:
    return [float(said == right) for said, right in zip(completion_ids, answer, strict=True)]


def even_tokens(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [sum(token % 2 == 0 for token in said) / len(said) for said in completion_ids]


def config(updates: int) -> LearnConfig:
    pipeline = groups(rollouts_per_update=ROLLOUTS, group_size=GROUP, updates_per_batch=1, updates=updates)
    world = CarryAdditionWorld(evaluate_every=1_000_000)
    return LearnConfig(
        pipeline=pipeline, estimator="grpo", world=world, imposed_lag_updates=0, learning_rate=RATE
    )


def student_turn(updates: int) -> Turn:
    student, turn = Student(config(updates)), Turn([], [])

    def after(learned: Any) -> None:
        turn.ends_s.append(time.process_time())
        turn.tokens.append(sum(learned.action_tokens))

    run_imposed(student, after=after)
    return turn


def talk_turn(game: EvenTalk, updates: int) -> Turn:
    """The student's steps without a world of its own: this one has nothing to teach."""
    sampler, turn = Played(game, seed=0, cache=None).sampler(), Turn([], [])
    policy = game_network(game, Sizes(), 0)
    learner = Learner(METHODS["grpo"](), policy, lambda _: None, learning_rate=RATE)
    sampler.publish(0, policy.snapshot())
    for traffic in imposed_traffic(config(updates).pipeline, lag_updates=0):
        sampler.forget(traffic.version)
        lesson = sampler.sample(traffic)
        learner.update(lesson)
        sampler.publish(traffic.version + 1, policy.snapshot())
        turn.ends_s.append(time.process_time())
        turn.tokens.append(int(lesson.batch.action_tokens.sum()))
    return turn


def contests(updates: int) -> list[Contest]:
    ids = np.arange(updates * ROLLOUTS // GROUP)
    carry, talk = Student(config(1)), EvenTalk()
    game, policy = CarryAddition(seed=carry.config.pipeline.seed), carry.learner.policy
    assert isinstance(policy, Gpt)
    prompts = game.prompts(ids)
    right = game.demonstration(prompts)
    return [
        Contest(
            name="carry addition",
            network=policy,
            prompts=prompts,
            answers=[t[m].tolist() for t, m in zip(right.tokens, right.action_mask, strict=True)],
            most_tokens=game.response_tokens,
            end=STOP,
            reward=right_or_not,
            ours=student_turn,
        ),
        Contest(
            name="64 tokens",
            network=game_network(talk, Sizes(), 0),
            prompts=talk.prompts(ids),
            answers=[[]] * len(ids),
            most_tokens=talk.response_tokens,
            end=talk.vocabulary,
            reward=even_tokens,
            ours=partial(talk_turn, talk),
        ),
    ]


def trl_turn(contest: Contest, updates: int, folder: str) -> Turn:
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    turn = Turn([], [])

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            turn.ends_s.append(time.process_time())

    def rewards(completion_ids: list[list[int]], **columns: Any) -> list[float]:
        turn.tokens.append(sum(map(len, completion_ids)))
        return contest.reward(completion_ids=completion_ids, **columns)

    trainer = grpo_trainer(
        GRPOTrainer,
        twin(contest.network),
        folder=folder,
        prompts=contest.prompts.tolist(),
        columns={"answer": contest.answers},
        vocabulary=len(contest.network.tokens),
        end=contest.end,
        reward=rewards,
        rollouts=ROLLOUTS,
        group=GROUP,
        most_tokens=contest.most_tokens,
        updates=updates,
        learning_rate=RATE,
        callbacks=[Clock()],
    )
    trainer.train()
    return turn


def measure(contest: Contest, updates: int, repeats: int) -> str:
    prompts = contest.prompts[:ROLLOUTS]
    tokens = torch.arange(len(prompts) * contest.most_tokens).view(len(prompts), -1) % STOP
    check_twin(contest.network, prompts, tokens)
    with tempfile.TemporaryDirectory() as folder:
        turns = [(contest.ours(updates), trl_turn(contest, updates, folder)) for _ in range(repeats)]
    ours, theirs = (min(Turn.seconds(turn) for turn in side) for side in zip(*turns, strict=True))
    said = [_mean([turn.tokens_a_rollout() for turn in side]) for side in zip(*turns, strict=True)]
    return (
        f"{contest.name:>14}: ours {ROLLOUTS / ours:6,.0f} rollouts/s of {said[0]:.2f} tokens"
        f" ({ROLLOUTS * said[0] / ours:7,.0f} tokens/s); TRL {ROLLOUTS / theirs:6,.0f} of {said[1]:.2f}"
        f" ({ROLLOUTS * said[1] / theirs:7,.0f} tokens/s); ratio of rollouts/s {theirs / ours:.1f},"
        f" of tokens/s {theirs * said[0] / (ours * said[1]):.1f}"
    )


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if importlib.util.find_spec("trl") is None:
        print("trl: not measured, not installed here (make oracles)")
        return
    torch.set_num_threads(1)
    print(f"{quiet()}; one thread, {ROLLOUTS} rollouts an update in groups of {GROUP}, float32")
    for contest in contests(args.updates):
        print(measure(contest, args.updates, args.repeats), flush=True)


if __name__ == "__main__":
    main()
