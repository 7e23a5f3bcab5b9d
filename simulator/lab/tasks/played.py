"""How does a game become a task: a warm-started policy, engines that sample, an accuracy that is measured?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from algorithms.rollout import Batch
from simulator.lab.draws import KeyedDraws
from simulator.lab.models.decoding import Crossing, Said, converse, keep_cache
from simulator.lab.models.gpt import FrozenGpt, Gpt, Sizes
from simulator.lab.models.gpt_critic import GptCritic
from simulator.lab.models.lengths import PADDING
from simulator.lab.models.versions import Versions
from simulator.lab.models.warm_start import Lessons, WarmStart, game_network, warm_started
from simulator.lab.parts import Critic, Lesson, Policy, Speaker
from simulator.lab.tasks.game import Game
from simulator.lab.traffic import Traffic

RANGE: Final = 2**28
"""Prompt ids of a run lie below it. Three more ranges of this size follow, so no id serves two purposes; the
last is that of `simulator.lab.pretraining`."""
HELD_OUT: Final = RANGE
WARM_START: Final = 2 * RANGE
LeftOut: TypeAlias = Callable[[Int[Tensor, "B T"]], Bool[Tensor, " B"]]
"""Responses -> those that nothing is to be learned from."""
MEASURED: Final = ("accuracy", "accuracy_short", "accuracy_long", "entropy", "response_tokens")


@final
class Played:
    """A game to learn.

    Args:
        game: prompts, rules and rewards.
        sizes: of the network.
        seed: of the starting weights and of the uniforms that samplers use.
        warm_start: how the policy is taught before it learns by reward.
        evaluate_every: updates between two measurements.
        held_out: prompts that are measured on. Their ids are no run's; a game that has few prompts may ask
            the same under two ids.
        crossing: what becomes of keys and values where a push falls into a rollout.
        left_out: responses that nothing is to be learned from; None to learn from all.
        cache: folder for warm starts, such as `warm_start.default_cache()`; None for none.
    """

    def __init__(
        self,
        game: Game,
        *,
        seed: int,
        sizes: Sizes = Sizes(),  # noqa: B008 - frozen
        warm_start: WarmStart = WarmStart(),  # noqa: B008 - frozen
        evaluate_every: int = 20,
        held_out: int = 256,
        crossing: Crossing = keep_cache,
        left_out: LeftOut | None = None,
        cache: Path | None,
    ) -> None:
        self.game = game
        self.seed = seed
        self.sizes = sizes
        self.crossing = crossing
        self.left_out = left_out
        self._warm_start = warm_start
        self._evaluate_every = evaluate_every
        self._cache = cache
        self._held_out = HELD_OUT + np.arange(held_out)
        width = game.response_tokens
        self._uniforms, self._held_out_uniforms = (
            KeyedDraws(seed, purpose, lambda rng, n: rng.random((n, width), dtype=np.float32))
            for purpose in ("sampling", "validation")
        )

    @cached_property
    def _start(self) -> Gpt:
        checks = WARM_START + RANGE // 2 + np.arange(self._warm_start.check_prompts)
        lessons = Lessons(
            prompt_ids=lambda first, count: WARM_START + first + np.arange(count),
            checks=checks,
            uniforms=torch.from_numpy(self._held_out_uniforms.rows(checks)),
        )
        return warm_started(self.game, self.sizes, self.seed, self._warm_start, lessons, cache=self._cache)

    def policy(self) -> Gpt:
        """The warm-started weights."""
        model = game_network(self.game, self.sizes, self.seed)
        model.load_state_dict(self._start.state_dict())
        return model

    def critic(self, policy: Policy, /) -> Critic:
        """The policy's network with a head of one number."""
        if not isinstance(policy, Gpt):
            raise TypeError(f"this critic starts from a Gpt, got {type(policy).__name__}")
        return GptCritic(policy)

    def sampler(self) -> GptSampler:
        """Engines that hold no weights yet."""
        return GptSampler(self)

    def uniforms(self, rollout_ids: NDArray[np.int64]) -> Float[Tensor, "B T"]:
        """The number in [0, 1) that decides each token of these rollouts."""
        return torch.from_numpy(self._uniforms.rows(rollout_ids))

    def measure(self, policy: Policy, update: int, /) -> dict[str, float]:
        """On held-out prompts, at temperature 1, with the same uniforms each time.

        `accuracy` is the mean reward, `accuracy_short` and `accuracy_long` that of prompts whose responses
        are shorter or longer than the mean, `entropy` the mean over action tokens in nats, `response_tokens`
        the mean length, observations included.
        """
        if update % self._evaluate_every:
            return dict.fromkeys(MEASURED, math.nan)
        if not isinstance(policy, Gpt):
            raise TypeError(f"a game is played by a Gpt, got {type(policy).__name__}")
        prompts = self.game.prompts(self._held_out)
        uniforms = torch.from_numpy(self._held_out_uniforms.rows(self._held_out))
        versions = torch.zeros(uniforms.shape, dtype=torch.long)
        said = converse(self.game, prompts, [policy.snapshot()], versions, uniforms)
        with torch.no_grad():
            log_probs = policy.logits(prompts, said.tokens)[said.action_mask].log_softmax(-1)
        rewards = self.game.rewards(prompts, said.tokens, said.action_mask)
        long = torch.tensor([self.game.relative_length(int(i)) > 1 for i in self._held_out])
        return {
            "accuracy": rewards.mean().item(),
            "accuracy_short": rewards[~long].mean().item(),
            "accuracy_long": rewards[long].mean().item(),
            "entropy": -(log_probs.exp() * log_probs).sum(-1).mean().item(),
            "response_tokens": said.lengths.double().mean().item(),
        }

    def relative_length(self, prompt_id: int, /) -> float:
        """The game's."""
        return self.game.relative_length(prompt_id)


@final
class GptSampler:
    """Engines that play a game."""

    def __init__(self, task: Played) -> None:
        self._task = task
        self._versions: Versions[FrozenGpt] = Versions()

    def publish(self, version: int, weights: Speaker, /) -> None:
        """Engines hold these weights from now on."""
        if not isinstance(weights, FrozenGpt):
            raise TypeError(f"a game is played by a FrozenGpt, got {type(weights).__name__}")
        self._versions.publish(version, weights)

    def forget(self, before: int, /) -> None:
        """Free all versions older than `before`."""
        self._versions.forget(before)

    def state(self) -> dict[str, Tensor]:
        """Versions and weights, for a checkpoint."""
        held = dict(self._versions)
        vectors = [weights.vector for weights in held.values()]
        return {
            "versions": torch.tensor(list(held), dtype=torch.long),
            "weights": torch.stack(vectors) if vectors else torch.zeros(0),
        }

    def load_state(self, state: Mapping[str, Tensor], /) -> None:
        """Go back to what `state` returned."""
        self._versions = Versions()
        like = self._task.policy().snapshot()
        for version, vector in zip(state["versions"].tolist(), state["weights"], strict=True):
            self._versions.publish(version, like.with_vector(vector))

    def sample(self, traffic: Traffic, /) -> Lesson:
        """Play the rollouts of an update.

        Raises:
            ValueError: a version that was never published, or was forgotten.
        """
        task = self._task
        game = task.game
        prompts = game.prompts(traffic.prompt_ids)
        versions = torch.from_numpy(traffic.versions(game.said_tokens(prompts).numpy(), game.response_tokens))
        present, places = torch.unique(versions, return_inverse=True)
        speakers = [self._versions.of(version) for version in present.tolist()]
        said = converse(
            game, prompts, speakers, places, task.uniforms(traffic.rollout_ids), crossing=task.crossing
        )
        return Lesson(
            prompts=prompts,
            batch=_recorded(game, prompts, said, versions, traffic),
            left_out=None if task.left_out is None else task.left_out(said.tokens),
        )


def _recorded(
    game: Game, prompts: Int[Tensor, "B P"], said: Said, versions: Int[Tensor, "B T"], traffic: Traffic
) -> Batch:
    """What estimators read; the reward is on the last token that the model chose."""
    earned = game.rewards(prompts, said.tokens, said.action_mask)
    last = said.action_mask & (said.action_mask.cumsum(-1) == said.action_mask.sum(-1, keepdim=True))
    beyond = torch.arange(said.tokens.shape[1]) >= said.lengths[:, None]
    return Batch(
        token_ids=said.tokens.masked_fill(beyond, PADDING),
        action_mask=said.action_mask,
        behaviour_log_probs=said.log_probs,
        policy_versions=versions[:, : said.tokens.shape[1]],
        rewards=earned[:, None].where(last, 0.0),
        prompt_ids=torch.from_numpy(traffic.prompt_ids),
        group_ids=torch.from_numpy(traffic.group_ids),
        truncated=said.truncated,
        temperature=torch.ones(len(traffic)),
    )
