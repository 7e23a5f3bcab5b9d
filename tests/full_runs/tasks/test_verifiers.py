"""Environments of the real verifiers, played turn by turn, by an interpreter that has it.

`POLICYLAG_VERIFIERS_PYTHON` names it: `pip install 'verifiers<0.4'` in an environment of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from full_runs.tasks.environment import HELD_OUT
from full_runs.tasks.play import EnvironmentFailedError, Played, patient, play
from full_runs.tasks.verifiers_environment import VerifiersEnvironment, VerifiersError, describe
from full_runs.tasks.verifiers_world import VerifiersWorld
from tests.full_runs.tasks.byte_tokens import BEGIN, END, ByteChat
from tests.full_runs.tasks.test_games import Scripted
from tests.full_runs.tasks.verifiers_environments import written

PYTHON = os.environ.get("POLICYLAG_VERIFIERS_PYTHON", "")
pytestmark = pytest.mark.skipif(
    not PYTHON and importlib.util.find_spec("verifiers") is None,
    reason="no verifiers here: POLICYLAG_VERIFIERS_PYTHON may name an interpreter that has it",
)


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(written(tmp_path)))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))


def environment(name: str, *variables: str, **args: Any) -> VerifiersEnvironment:
    python = PYTHON or sys.executable
    seen = ("PYTHONPATH", "HF_DATASETS_CACHE", *variables)
    return VerifiersEnvironment(name=name, args=args, python=python, variables=seen)


def world(of: VerifiersEnvironment, *, most: int = 400, workers: int = 1) -> VerifiersWorld:
    return VerifiersWorld(
        of, describe(of), ByteChat(), workers=workers, seed=1, max_prompt_tokens=100, max_response_tokens=most
    )  # fmt: skip


async def plays(on: VerifiersWorld, *turns: str, prompt_id: int = 0, seconds: float = 60.0) -> Played:
    says = [token for turn in turns for token in (*turn.encode(), END)]
    return await play(
        on.episode(prompt_id), Scripted(says), prompt_id=prompt_id, group_id=0, temperature=1.0,
        clock=lambda: 0.0, within=patient(seconds),
    )  # fmt: skip


def now(on: VerifiersWorld, coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def closed() -> Any:
        try:
            return await coroutine
        finally:
            await on.close()

    return asyncio.run(closed())


def text(played: Played) -> str:
    return bytes(token if token < 256 else 0 for token in played.rollout.token_ids).decode()


def test_one_turn_is_rewarded_by_the_rubric() -> None:
    on = world(environment("reversed_words", count=20))

    async def both() -> tuple[Played, Played]:
        word = f"word{on.order.of(3)}"
        return await plays(on, word[::-1], prompt_id=3), await plays(on, word, prompt_id=3)

    right, wrong = now(on, both())
    assert (right.rollout.reward, wrong.rollout.reward) == (0.5, 0.0)
    assert right.prompt == (BEGIN, *f"[user]word{on.order.of(3)}".encode(), END, *b"\n[assistant]")
    assert (right.turns, all(right.rollout.action_mask), right.rollout.truncated) == (1, True, False)


def test_several_turns_are_one_sequence_of_tokens_and_the_rubric_sees_all_of_them() -> None:
    on = world(environment("guessed_numbers"))
    row = on.order.of(2)
    assert 0 < row < 19
    played = now(on, plays(on, "0", "19", str(row), prompt_id=2))
    assert played.prompt == (
        BEGIN, *b"[system]Guess.", END, *f"\n[user]no. {row}".encode(), END, *b"\n[assistant]",
    )  # fmt: skip
    middle = "\0\n[user]{}\0\n[assistant]"
    assert text(played) == f"0{middle.format('higher')}19{middle.format('lower')}{row}\0"
    rollout = played.rollout
    both = zip(rollout.token_ids, rollout.action_mask, strict=True)
    chosen = [token for token, ours in both if ours]
    assert chosen == [*b"0", END, *b"19", END, *str(row).encode(), END]
    assert played.turns == 3
    assert played.rollout.reward == pytest.approx(1 / 3)


def test_turns_are_counted_by_the_environment() -> None:
    on = world(environment("guessed_numbers", max_turns=2))
    played = now(on, plays(on, "-1", "-2", "-3"))
    assert (played.turns, played.rollout.reward) == (2, 0.0)


def test_a_tool_is_called_in_hermes_words_and_its_result_follows() -> None:
    on = world(environment("looked_up"))
    row = on.order.of(0)
    call = f'<tool_call>{{"name": "look_up", "arguments": {{"key": "k{row}"}}}}</tool_call>'
    played = now(on, plays(on, call, f"it is v{row}"))
    assert bytes(played.prompt[1:20]) == b"[tools]look_up\n[use"
    assert text(played) == f"{call}\0\n[tool]v{row}\0\n[assistant]it is v{row}\0"
    assert played.rollout.reward == 1.0


def test_what_calls_no_tool_ends_a_tool_environment() -> None:
    on = world(environment("looked_up"))
    assert now(on, plays(on, '<tool_call>{"name": }</tool_call>')).turns == 1


def test_held_out_rows_are_never_trained_on() -> None:
    own = world(environment("reversed_words", count=5, evaluated=3))
    played = now(own, plays(own, "x", prompt_id=HELD_OUT + 1))
    assert b"word1001" in bytes(token for token in played.prompt if token < 256)
    tenth = world(environment("reversed_words", count=20))
    assert tenth.order.held_out == (9, 19)
    held_out = now(tenth, plays(tenth, "x", prompt_id=HELD_OUT))
    assert b"word9" in bytes(token for token in held_out.prompt if token < 256)


def test_a_response_that_its_cap_cut_off_is_truncated_and_earns_nothing() -> None:
    on = world(environment("guessed_numbers"), most=20)
    row = on.order.of(0)
    cut_by_the_environment = now(on, plays(on, "-1", str(row)))
    assert (cut_by_the_environment.rollout.reward, cut_by_the_environment.rollout.truncated) == (0.0, True)
    assert len(cut_by_the_environment.rollout.token_ids) == 20
    assert cut_by_the_environment.turns == 1
    assert now(on, plays(on, "7" * 50)).rollout.truncated


def test_an_environment_that_raises_waits_hangs_or_dies_fails_its_own_rollouts_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("full_runs.tasks.verifiers_link._ANSWER_S", 0.5)
    on = world(environment("guessed_numbers"))

    async def all_of_them() -> list[Any]:
        ended = []
        for says, seconds in (("raise", 60.0), ("wait", 1.0), ("die", 60.0), ("hang", 1.0), ("text", 60.0)):
            try:
                ended.append(await plays(on, says, seconds=seconds))
            except EnvironmentFailedError as error:
                ended.append(str(error))
            await asyncio.sleep(1.0 if says == "hang" else 0.0)
        row = on.order.of(0)
        return [*ended, await asyncio.gather(*(plays(on, str(row)) for _ in range(3)))]

    raised, waited, died, hung, odd, fine = now(on, all_of_them())
    assert "RuntimeError: no such guess" in raised
    assert "did not answer in 1.0 s" in waited
    assert "its process" in died
    assert "did not answer in 1.0 s" in hung
    assert "ValueError" in odd
    assert [one.rollout.reward for one in fine] == [1.0] * 3


def test_rollouts_are_spread_over_workers_and_may_be_given_up() -> None:
    on = world(environment("guessed_numbers"), workers=2)

    async def spread() -> list[int]:
        episodes = [on.episode(n) for n in range(4)]
        for episode in episodes:
            await episode.reset()
        before = [len(link.rollouts) for link in on._links]
        episodes.clear()
        del episode
        return [*before, *(len(link.rollouts) for link in on._links)]

    assert now(on, spread()) == [2, 2, 0, 0]


def test_one_that_changes_what_was_said_is_no_sequence_of_tokens() -> None:
    on = world(environment("rewriting"))
    with pytest.raises(EnvironmentFailedError, match="changed what was said before"):
        now(on, plays(on, "x", "y"))


def test_it_sees_the_variables_that_are_named_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_ONE", "1")
    monkeypatch.setenv("SECRET_TWO", "1")
    for named in ((), ("SECRET_ONE",)):
        on = world(environment("variables", *named))
        assert now(on, plays(on, "x")).rollout.reward == len(named)


def test_what_it_prints_or_reads_does_not_meet_our_lines() -> None:
    on = world(environment("printing"))
    assert now(on, plays(on, "x")).rollout.reward == 1.0


@pytest.mark.parametrize(
    ("name", "args", "why"),
    [
        ("grouped", {}, "SingleTurnEnv rewards groups"),
        ("reversed_words", {"rows": 3}, "unexpected keyword argument 'rows'"),
        ("no_such_thing", {}, "no_such_thing"),
    ],
)
def test_what_cannot_be_played_is_named(name: str, args: dict[str, Any], why: str) -> None:
    with pytest.raises(VerifiersError, match=why):
        describe(environment(name, **args))
