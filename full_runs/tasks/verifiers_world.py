"""How is a verifiers environment played by our engines? Its messages in, token ids out; its rubric rewards.

Each of its turns is one of the model's, whose ids stay as they are. *Choice*: a response that its cap cut off
ends there, earns nothing and is marked truncated, whatever the rubric would have said; the cap counts what
the environment says too. An environment that changes what was said before cannot be played in one sequence
of tokens: its rollout fails.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, final

from full_runs.configs import text_worlds as settings
from full_runs.tasks.chat import Chat, Message, Tool
from full_runs.tasks.environment import HELD_OUT, Ask, Step, must_fit
from full_runs.tasks.order import Order
from full_runs.tasks.tool_calls import calls_of
from full_runs.tasks.verifiers_environment import (
    Described,
    VerifiersEnvironment,
    VerifiersError,
    describe,
)
from full_runs.tasks.verifiers_link import Link


@final
class VerifiersWorld:
    """Rows of an environment's datasets, each played in a rollout of its own.

    Args:
        environment: which.
        described: its sizes. One without an evaluation dataset has every tenth row held out.
        chat: the model's tokenizer.
        workers: processes that play; each plays any number of rollouts, but one at a time computes.
        seed: of the order of rows.
        max_prompt_tokens: a longer prompt fails its rollout.
        max_response_tokens: of what the model and the environment say together.

    Raises:
        ValueError: fewer than ten rows, and none to measure on.
    """

    def __init__(
        self,
        environment: VerifiersEnvironment,
        described: Described,
        chat: Chat,
        *,
        workers: int,
        seed: int,
        max_prompt_tokens: int,
        max_response_tokens: int,
    ) -> None:
        held_out = None if described.held_out is None else range(described.held_out)
        self.order: Order[int] = Order(range(described.trained), held_out, seed=seed)
        self._split = "trained" if held_out is None else "held_out"
        self.chat = chat
        self.max_prompt_tokens = max_prompt_tokens
        self.max_response_tokens = max_response_tokens
        self._links = [Link(environment) for _ in range(workers)]
        self._numbers = count()

    @property
    def most_tokens(self) -> int:
        return self.max_prompt_tokens + self.max_response_tokens

    def episode(self, prompt_id: int, /) -> VerifiersEpisode:
        split = self._split if prompt_id >= HELD_OUT else "trained"
        return VerifiersEpisode(
            self, next(self._numbers), split=split, row=self.order.of(prompt_id), prompt_id=prompt_id
        )

    def least_busy(self) -> Link:
        """The process that plays the fewest rollouts."""
        return min(self._links, key=lambda link: len(link.rollouts))

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(*(link.close() for link in self._links))


@final
class VerifiersEpisode:
    """One rollout."""

    def __init__(self, world: VerifiersWorld, number: int, *, split: str, row: int, prompt_id: int) -> None:
        self._world = world
        self._number = number
        self._split, self._row, self._prompt_id = split, row, prompt_id
        self._link: Link
        self._prompt: list[Message] = []
        self._seen: list[Message] = []
        """All messages, with those that were the model's."""
        self._tools: list[Tool] = []
        self._prompt_tokens = self._tokens = 0
        self._said: list[int] = []
        """In this turn."""

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        """The first turn.

        Raises:
            VerifiersError: it could not be asked for.
            ValueError: the prompt is too long, or cannot be shown.
        """
        self._link = self._world.least_busy()
        # A rollout that is given up, for its engine say, is never told so.
        weakref.finalize(self, self._link.forget, self._number).atexit = False
        asked = await self._link.open(self._number, split=self._split, row=self._row)
        if "reward" in asked:
            raise VerifiersError(f"it ended before the model's first turn ({asked['stopped']})")
        self._prompt = self._seen = asked["messages"]
        self._tools = asked["tools"]
        prompt = self._world.chat.conversation(self._prompt, self._tools)
        self._prompt_tokens = len(prompt)
        must_fit(prompt, self._world.max_prompt_tokens, prompt_id=self._prompt_id)
        return prompt, self._ask()

    async def step(self, token_ids: Sequence[int], /) -> Step:
        """What the environment says to the model's turn, or the reward.

        Raises:
            VerifiersError: it failed, or changed what was said before.
            ValueError: nothing was said, or what it says cannot be shown.
        """
        if not token_ids:
            raise ValueError("a turn without a token")
        self._tokens += len(token_ids)
        self._said.extend(token_ids)
        if token_ids[-1] not in self._world.chat.ends:
            return self._cut(()) if self._is_full() else Step(ask=self._ask())
        text = self._world.chat.decode(self._said)
        text, calls = calls_of(text) if self._tools else (text, [])
        answer = {"text": text, "tool_calls": calls, "tokens": len(self._said)}
        before = self._prompt_tokens + self._tokens - len(self._said)
        follows = await self._link.said(self._number, answer | {"prompt_tokens": before})
        self._said.clear()
        if "reward" in follows:
            self._link.rollouts.discard(self._number)
            return Step(reward=follows["reward"])
        return self._next(follows, last=token_ids[-1])

    def _next(self, follows: Mapping[str, Any], *, last: int) -> Step:
        messages, known = follows["messages"], len(self._seen)
        # The model's own turn comes back as the environment keeps it, and is not read.
        if messages[:known] != self._seen or [m["role"] for m in messages[known : known + 1]] != [
            "assistant"
        ]:
            raise VerifiersError("it changed what was said before: that is no one sequence of tokens")
        added, self._seen = messages[known + 1 :], messages
        if any(message["role"] == "assistant" for message in added):
            raise VerifiersError("it spoke in the model's place")
        if follows["tools"] != self._tools:
            raise VerifiersError("it changed its tools between two turns")
        observation = self._world.chat.following(self._prompt, added, self._tools)
        # The turn's end was chosen by the model; a template that ends turns otherwise says so besides.
        observation = observation[1:] if observation[:1] == (last,) else observation
        left = self._world.max_response_tokens - self._tokens
        self._tokens += len(observation)
        if self._is_full():
            return self._cut(observation[:left])
        return Step(observation=observation, ask=self._ask())

    def _cut(self, observation: tuple[int, ...]) -> Step:
        self._link.forget(self._number)
        return Step(observation=observation, reward=0.0, truncated=True)

    def _ask(self) -> Ask:
        return Ask(
            max_tokens=self._world.max_response_tokens - self._tokens, stop_token_ids=self._world.chat.ends
        )

    def _is_full(self) -> bool:
        return self._tokens >= self._world.max_response_tokens


def verifiers_world(
    asked: settings.Verifiers, chat: Chat, *, seed: int, max_prompt_tokens: int, max_response_tokens: int
) -> VerifiersWorld:
    """The world that was asked for; the environment is loaded once to see that it can be.

    Raises:
        VerifiersError: it cannot be loaded, or played.
        ValueError: it has too few rows.
    """
    environment = VerifiersEnvironment(
        name=asked.id,
        args=asked.args,
        python=asked.python or "",
        variables=asked.variables,
        load_s=asked.load_timeout_s,
    )
    return VerifiersWorld(
        environment,
        describe(environment),
        chat,
        workers=asked.workers,
        seed=seed,
        max_prompt_tokens=max_prompt_tokens,
        max_response_tokens=max_response_tokens,
    )
