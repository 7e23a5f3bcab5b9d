"""How is one rollout made? Engine and environment in turn; ids are appended and never changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol, TypeVar, final

from algorithms.rollout import Rollout
from full_runs.engine.answer import Answer
from full_runs.tasks.environment import Ask, Episode, Step

Returned = TypeVar("Returned")


class EnvironmentFailedError(Exception):
    """The environment raised, or took too long."""


class Generate(Protocol):
    """Whatever continues a sequence of tokens."""

    def __call__(
        self, token_ids: Sequence[int], *, max_tokens: int, stop_token_ids: tuple[int, ...]
    ) -> Awaitable[Answer]: ...


class Within(Protocol):
    """Awaits a call of the environment; raises `EnvironmentFailedError` if that fails or hangs."""

    def __call__(self, call: Awaitable[Returned], /) -> Awaitable[Returned]: ...


def patient(seconds: float) -> Within:
    """Waits so long for each call."""

    async def within(call: Awaitable[Returned]) -> Returned:
        try:
            return await asyncio.wait_for(call, seconds)
        except TimeoutError:
            raise EnvironmentFailedError(f"it did not answer in {seconds} s") from None
        except Exception as error:
            # Foreign code may raise anything, and costs no more than its own rollout.
            raise EnvironmentFailedError(repr(error)) from error

    return within


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Tokens that the model made in one turn under one version, as a row of the event log needs them."""

    version: int
    start_token: int
    tokens: int
    start_s: float
    end_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A finished rollout, and where its time went."""

    prompt: tuple[int, ...]
    rollout: Rollout
    pieces: tuple[Piece, ...]
    turns: int
    environment_s: float


@final
@dataclass(slots=True)
class _Transcript:
    tokens: list[int] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def said(self, answer: Answer) -> None:
        self.tokens.extend(answer.token_ids)
        self.chosen.extend([True] * len(answer.token_ids))
        self.log_probs.extend(answer.log_probs)
        self.versions.extend(answer.versions)

    def observed(self, tokens: Sequence[int]) -> None:
        # No estimator reads an observation's log-prob and version; the latter is that of the token before.
        self.tokens.extend(tokens)
        self.chosen.extend([False] * len(tokens))
        self.log_probs.extend([0.0] * len(tokens))
        self.versions.extend([self.versions[-1]] * len(tokens))


async def play(
    episode: Episode,
    generate: Generate,
    *,
    prompt_id: int,
    group_id: int,
    temperature: float,
    clock: Callable[[], float],
    within: Within,
) -> Played:
    """Play one rollout to its end.

    Args:
        episode: a fresh environment.
        generate: an engine.
        prompt_id, group_id: as the rollout will carry them.
        temperature: that the engine samples with.
        clock: seconds since the run began.
        within: awaits each call of the environment.

    Raises:
        EnvironmentFailedError: from `within`.
        EngineError, ValueError: from `generate`.
    """
    began_s = clock()
    prompt, ask = await within(episode.reset())
    environment_s = clock() - began_s
    transcript, pieces, turns = _Transcript(), [], 0
    while True:
        asked_s, start = clock(), len(transcript.tokens)
        answer = await _turn(generate, [*prompt, *transcript.tokens], ask)
        transcript.said(answer)
        said_s = clock()
        pieces.extend(pieces_of(answer.versions, start=start, start_s=asked_s, end_s=said_s))
        turns += 1
        step = await within(episode.step(answer.token_ids))
        if not isinstance(step, Step):
            raise EnvironmentFailedError(f"a step is a Step, got {step!r}")
        environment_s += clock() - said_s
        transcript.observed(step.observation)
        if step.ask is None:
            break
        ask = step.ask
    assert step.reward is not None
    rollout = Rollout(
        prompt_id=prompt_id,
        group_id=group_id,
        token_ids=tuple(transcript.tokens),
        action_mask=tuple(transcript.chosen),
        behaviour_log_probs=tuple(transcript.log_probs),
        policy_versions=tuple(transcript.versions),
        reward=step.reward,
        truncated=step.truncated,
        temperature=temperature,
    )
    return Played(
        prompt=tuple(prompt), rollout=rollout, pieces=tuple(pieces), turns=turns, environment_s=environment_s
    )


async def _turn(generate: Generate, tokens: Sequence[int], ask: Ask) -> Answer:
    answer = await generate(tokens, max_tokens=ask.max_tokens, stop_token_ids=ask.stop_token_ids)
    if answer.ended == "abort":
        raise ValueError("the engine was told to stop in the middle of an answer")
    return answer


def pieces_of(versions: Sequence[int], *, start: int, start_s: float, end_s: float) -> list[Piece]:
    """One piece for each run of equal versions.

    The engine does not say when it made a token, so the time of an answer is spread over its tokens evenly.
    """
    edges = [0, *(i for i in range(1, len(versions)) if versions[i] != versions[i - 1]), len(versions)]
    each_s = (end_s - start_s) / max(len(versions), 1)
    return [
        Piece(
            version=versions[first],
            start_token=start + first,
            tokens=end - first,
            start_s=start_s + each_s * first,
            end_s=start_s + each_s * end,
        )
        for first, end in pairwise(edges)
        if end > first
    ]
