"""The lab's worlds, played through an engine: right play earns what the game says, in whatever turns."""

import asyncio
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from full_runs.engine.answer import Answer
from full_runs.tasks.environment import Ask, Step
from full_runs.tasks.games import GameWorld, addition, lookup
from full_runs.tasks.play import EnvironmentFailedError, Played, patient, pieces_of, play
from simulator.lab.tasks import carry_addition, tool_lookup

WORLDS = [
    addition(seed=3, most_digits=3),
    lookup(seed=3, most_turns=5),
    lookup(seed=3, most_turns=4, observation_tokens=3),
]


class Scripted:
    """An engine that says what it is told to say, until a stop token or the cap."""

    def __init__(self, says: Sequence[int], version: int = 0) -> None:
        self.says = list(says)
        self.version = version
        self.asked: list[list[int]] = []

    async def __call__(
        self, token_ids: Sequence[int], *, max_tokens: int, stop_token_ids: tuple[int, ...]
    ) -> Answer:
        self.asked.append(list(token_ids))
        said: list[int] = []
        while len(said) < max_tokens:
            said.append(self.says.pop(0))
            if said[-1] in stop_token_ids:
                break
        self.version += 1
        return Answer(
            token_ids=tuple(said),
            log_probs=(-0.5,) * len(said),
            versions=(self.version,) * len(said),
            ended="stop" if said[-1] in stop_token_ids else "length",
        )


def played(world: GameWorld, engine: Scripted, prompt_id: int = 0) -> Played:
    ticks = iter(range(10**6))
    return asyncio.run(
        play(
            world.episode(prompt_id), engine, prompt_id=prompt_id, group_id=7, temperature=1.0,
            clock=lambda: float(next(ticks)), within=patient(5.0),
        )
    )  # fmt: skip


def right(world: GameWorld, prompt_id: int) -> tuple[list[int], list[int], list[bool]]:
    """Prompt, response and action mask of a demonstration, without padding."""
    prompts = world.game.prompts(np.array([prompt_id]))
    shown = world.game.demonstration(prompts)
    length = int(world.game.said_tokens(prompts))
    return prompts[0].tolist(), shown.tokens[0, :length].tolist(), shown.action_mask[0, :length].tolist()


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("prompt_id", range(6))
def test_right_play_is_the_demonstration_token_by_token(world: GameWorld, prompt_id: int) -> None:
    prompt, tokens, mask = right(world, prompt_id)
    engine = Scripted([token for token, chosen in zip(tokens, mask, strict=True) if chosen])
    made = played(world, engine, prompt_id)
    assert list(made.prompt) == prompt
    assert list(made.rollout.token_ids) == tokens
    assert list(made.rollout.action_mask) == mask
    assert made.rollout.reward == 1.0
    assert made.rollout.terminated
    assert not engine.says
    # What is asked with is always the prompt and all that stands there, unchanged.
    assert all(asked == [*prompt, *tokens][: len(asked)] for asked in engine.asked)
    assert made.turns == len(engine.asked)


def test_wrong_play_earns_nothing() -> None:
    world = WORLDS[0]
    _, tokens, _ = right(world, 0)
    wrong = [(tokens[0] + 1) % 10, *tokens[1:]]
    assert played(world, Scripted(wrong)).rollout.reward == 0.0


def test_a_model_that_never_stops_is_truncated() -> None:
    world = WORLDS[0]
    made = played(world, Scripted([1] * 50))
    assert made.rollout.truncated
    assert len(made.rollout.token_ids) == world.game.response_tokens
    assert made.rollout.reward == 0.0


def test_a_call_at_the_very_end_is_cut_by_the_cap() -> None:
    world = WORLDS[1]
    cap = world.game.response_tokens
    made = played(world, Scripted([tool_lookup.WORDS] * (cap - 1) + [tool_lookup.CALL]))
    assert len(made.rollout.token_ids) == cap
    assert made.rollout.truncated


def test_versions_of_turns_are_kept_and_observations_follow_the_token_before() -> None:
    world = WORLDS[1]
    _, tokens, mask = right(world, 0)
    made = played(world, Scripted([t for t, chosen in zip(tokens, mask, strict=True) if chosen], version=4))
    versions = made.rollout.policy_versions
    assert versions[0] == 5
    assert sorted(versions) == list(versions)
    pairs = [(versions[t], versions[t - 1]) for t, chosen in enumerate(mask) if not chosen]
    assert pairs
    assert all(own == before for own, before in pairs)
    assert sum(piece.tokens for piece in made.pieces) == sum(mask)


def test_a_turn_that_passes_over_the_environment_is_refused() -> None:
    async def too_much() -> None:
        episode = addition(seed=0, most_digits=2).episode(0)
        await episode.reset()
        await episode.step([carry_addition.STOP, 1])

    with pytest.raises(ValueError, match="position 1 is not the model's"):
        asyncio.run(too_much())


class Broken:
    """An environment that raises, or hangs."""

    def __init__(self, *, hangs: bool) -> None:
        self.hangs = hangs

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        if self.hangs:
            await asyncio.sleep(3600)
        raise ZeroDivisionError("no such thing")

    async def step(self, token_ids):
        raise AssertionError(token_ids)


@pytest.mark.parametrize(("hangs", "why"), [(True, "did not answer in 0.01 s"), (False, "no such thing")])
def test_an_environment_that_fails_or_hangs_is_told_from_all_else(hangs: bool, why: str) -> None:
    async def one() -> None:
        await play(
            Broken(hangs=hangs), Scripted([]), prompt_id=0, group_id=0, temperature=1.0,
            clock=lambda: 0.0, within=patient(0.01),
        )  # fmt: skip

    with pytest.raises(EnvironmentFailedError, match=why):
        asyncio.run(one())


class Careless:
    """An environment whose step returns whatever it is told to."""

    def __init__(self, returns: Callable[[], object]) -> None:
        self.returns = returns

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        return (1,), Ask(max_tokens=1)

    async def step(self, token_ids):  # noqa: ARG002
        return self.returns()


@pytest.mark.parametrize(
    ("returns", "why"),
    [
        (lambda: Step(reward=math.nan), "reward is a finite number, got nan"),
        (lambda: Step(reward=-math.inf), "reward is a finite number, got -inf"),
        (lambda: Step(), "a next turn or a reward"),
        (lambda: None, "a step is a Step, got None"),
    ],
)
def test_an_environment_that_returns_nonsense_has_failed(returns: Callable[[], object], why: str) -> None:
    async def one() -> None:
        await play(
            Careless(returns), Scripted([1]), prompt_id=0, group_id=0, temperature=1.0,
            clock=lambda: 0.0, within=patient(5.0),
        )  # fmt: skip

    with pytest.raises(EnvironmentFailedError, match=why):
        asyncio.run(one())


def test_pieces_are_cut_where_versions_change() -> None:
    pieces = pieces_of([2, 2, 3, 3, 3], start=10, start_s=1.0, end_s=2.0)
    assert [(p.version, p.start_token, p.tokens) for p in pieces] == [(2, 10, 2), (3, 12, 3)]
    assert [p.start_s for p in pieces] == pytest.approx([1.0, 1.4])
    assert [p.end_s for p in pieces] == pytest.approx([1.4, 2.0])
