"""How is a question put, answered and rewarded, in token ids? In one turn, or with a tool in between.

A response ends with a token that ends a text, or with its cap; the cap counts what a tool says too.
*Choice*: a response that its cap cut off has no answer, earns nothing and is marked truncated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from full_runs.tasks.environment import Ask, Step, must_fit
from full_runs.tasks.tokenizer import Tokenizer


class Source(Protocol):
    """Questions by number."""

    def question(self, prompt_id: int, /) -> Awaitable[str]:
        """Its text; the same for the same number."""

    def reward(self, prompt_id: int, response: str, /) -> Awaitable[float]:
        """What a response earns."""

    async def close(self) -> None:
        """No more questions."""


class Tool(Protocol):
    """Something that has its say in the midst of a response."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Tokens after which it looks at what was said."""

    def reply(self, said: str, calls: int, /) -> Awaitable[tuple[int, ...] | None]:
        """Tokens that follow what was said since its last reply; None if it was not called.

        Args:
            said: by the model, since then.
            calls: how often it has replied before.
        """


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TextWorld:
    """Questions, each answered in an episode of its own.

    Args:
        source: of questions, and of rewards.
        tokenizer: the model's.
        instruction: follows each question, after an empty line; may be empty.
        max_prompt_tokens: a longer prompt fails its rollout.
        max_response_tokens: of what the model and the tool say together.
        tool: None if there is none.
    """

    source: Source
    tokenizer: Tokenizer
    instruction: str
    max_prompt_tokens: int
    max_response_tokens: int
    tool: Tool | None = None

    @property
    def most_tokens(self) -> int:
        return self.max_prompt_tokens + self.max_response_tokens

    def episode(self, prompt_id: int, /) -> TextEpisode:
        return TextEpisode(self, prompt_id)

    async def close(self) -> None:
        """End what its source runs."""
        await self.source.close()

    def asked(self, question: str) -> tuple[int, ...]:
        """The prompt of a question."""
        return self.tokenizer.prompt(f"{question}\n\n{self.instruction}" if self.instruction else question)


@final
class TextEpisode:
    """One response."""

    def __init__(self, world: TextWorld, prompt_id: int) -> None:
        self._world = world
        self._prompt_id = prompt_id
        self._tokens = 0
        self._earlier: list[str] = []
        """What the model said before each reply of the tool."""
        self._said: list[int] = []
        """Since then."""

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        """Put the question.

        Raises:
            ValueError: the prompt is too long.
        """
        prompt = self._world.asked(await self._world.source.question(self._prompt_id))
        must_fit(prompt, self._world.max_prompt_tokens, prompt_id=self._prompt_id)
        return prompt, self._ask()

    async def step(self, token_ids: Sequence[int], /) -> Step:
        """Let the tool have its say, or reward what was said.

        Raises:
            ValueError: nothing was said.
        """
        if not token_ids:
            raise ValueError("a turn without a token")
        self._tokens += len(token_ids)
        self._said.extend(token_ids)
        if token_ids[-1] in self._world.tokenizer.ends:
            response = "\n".join([*self._earlier, self._text()])
            return Step(reward=await self._world.source.reward(self._prompt_id, response))
        if self._is_full():
            return _cut(())
        observation = await self._reply()
        return _cut(observation) if self._is_full() else Step(observation=observation, ask=self._ask())

    async def _reply(self) -> tuple[int, ...]:
        if self._world.tool is None:
            return ()
        text = self._text()
        reply = await self._world.tool.reply(text, len(self._earlier))
        if reply is None:
            return ()
        self._earlier.append(text)
        self._said.clear()
        observation = reply[: self._world.max_response_tokens - self._tokens]
        self._tokens += len(observation)
        return observation

    def _ask(self) -> Ask:
        tool = self._world.tool
        stops = (*self._world.tokenizer.ends, *(tool.stops if tool else ()))
        return Ask(max_tokens=self._world.max_response_tokens - self._tokens, stop_token_ids=stops)

    def _text(self) -> str:
        return self._world.tokenizer.decode(self._said)

    def _is_full(self) -> bool:
        return self._tokens >= self._world.max_response_tokens


def _cut(observation: tuple[int, ...]) -> Step:
    return Step(observation=observation, reward=0.0, truncated=True)
