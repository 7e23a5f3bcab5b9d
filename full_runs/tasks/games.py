"""How is a world of the lab played through an engine?

A game says what stands at each position. An engine is asked for a whole turn: up to a token after which the
environment may have its say, and as many tokens more as belong to that one (`CALL` is followed by a node).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
import torch

from full_runs.configs.record import Addition, Lookup
from full_runs.tasks.environment import Ask, Step
from simulator.lab.tasks import carry_addition, tool_lookup
from simulator.lab.tasks.game import CHOOSE, END, Game


@final
class GameWorld:
    """A game, played.

    Args:
        game: its rules.
        ends: token -> how many tokens that the model chooses follow it before the environment has its say.
        first_prompt: number of the prompt that id 0 stands for.
    """

    def __init__(self, game: Game, *, ends: Mapping[int, int], first_prompt: int = 0) -> None:
        self.game = game
        self.ends = dict(ends)
        self.first_prompt = first_prompt

    @property
    def most_tokens(self) -> int:
        return self.game.prompt_tokens + self.game.response_tokens

    def episode(self, prompt_id: int, /) -> GameEpisode:
        return GameEpisode(self, self.first_prompt + prompt_id)


@final
class GameEpisode:
    """One rollout of a game."""

    def __init__(self, world: GameWorld, prompt_id: int) -> None:
        self._world = world
        self._prompt = world.game.prompts(np.array([prompt_id]))
        self._tokens: list[int] = []
        self._chosen: list[bool] = []
        self._owed = 0
        """Tokens that the model still chooses before the environment has its say."""

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        return tuple(self._prompt[0].tolist()), self._ask()

    async def step(self, token_ids: Sequence[int], /) -> Step:
        """Apply the rules to every token that was said, then see what follows.

        Raises:
            ValueError: nothing was said, or the environment would have had its say in between.
        """
        if not token_ids:
            raise ValueError("a turn without a token")
        for token in token_ids:
            if (follows := self._follows()) != CHOOSE:
                raise ValueError(f"position {len(self._tokens)} is not the model's: {follows} stands there")
            self._add(token, chosen=True)
            self._owed = max(self._owed - 1, 0) if self._owed else self._world.ends.get(token, 0)
        observed: list[int] = []
        while (follows := self._follows()) not in (CHOOSE, END) and not self._is_full():
            self._add(follows, chosen=False)
            observed.append(follows)
        if follows == CHOOSE and not self._is_full():
            return Step(observation=tuple(observed), ask=self._ask())
        tokens, mask = torch.tensor([self._tokens]), torch.tensor([self._chosen])
        reward = self._world.game.rewards(self._prompt, tokens, mask).item()
        return Step(observation=tuple(observed), reward=reward, truncated=follows != END)

    def _ask(self) -> Ask:
        left = self._world.game.response_tokens - len(self._tokens)
        if self._owed:
            return Ask(max_tokens=min(self._owed, left))
        return Ask(max_tokens=left, stop_token_ids=tuple(self._world.ends))

    def _add(self, token: int, *, chosen: bool) -> None:
        self._tokens.append(token)
        self._chosen.append(chosen)

    def _follows(self) -> int:
        said = torch.tensor([self._tokens], dtype=torch.long).reshape(1, -1)
        return int(self._world.game.follow(self._prompt, said, len(self._tokens)).item())

    def _is_full(self) -> bool:
        return len(self._tokens) >= self._world.game.response_tokens


def addition(*, seed: int, most_digits: int) -> GameWorld:
    """Sums of numbers of up to so many digits."""
    game = carry_addition.CarryAddition(seed=seed, most_digits=most_digits)
    return GameWorld(game, ends={carry_addition.STOP: 0})


def lookup(*, seed: int, most_turns: int, observation_tokens: int = 1) -> GameWorld:
    """Pointers that only the environment knows, over turns of calls and observations."""
    game = tool_lookup.ToolLookup(seed=seed, most_turns=most_turns, observation_tokens=observation_tokens)
    return GameWorld(game, ends={tool_lookup.CALL: 1, tool_lookup.ANSWER: 1})


def game_world(settings: Addition | Lookup, *, seed: int) -> GameWorld:
    """The one that a configuration names."""
    if isinstance(settings, Addition):
        return addition(seed=seed, most_digits=settings.most_digits)
    return lookup(seed=seed, most_turns=settings.most_turns, observation_tokens=settings.observation_tokens)
