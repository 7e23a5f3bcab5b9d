"""Questions in token ids: what is asked, what is appended, what is earned, with a tool and without."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path

import pytest

from full_runs.configs import text_worlds as settings
from full_runs.tasks.environment import HELD_OUT
from full_runs.tasks.play import EnvironmentFailedError, Played, patient, play
from full_runs.tasks.python_tool import PythonTool, block_at_end, told
from full_runs.tasks.questions import Questions, read_questions
from full_runs.tasks.sandbox import Limits, Ran, SandboxError
from full_runs.tasks.text import TextWorld
from full_runs.tasks.text_worlds import text_world
from tests.full_runs.tasks.byte_tokens import BEGIN, END, ByteTokens
from tests.full_runs.tasks.test_games import Scripted
from tests.full_runs.tasks.test_sandbox import LIMITS, isolated

TOKENS = ByteTokens()


def file_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(lines))
    return path


def source(tmp_path: Path, count: int = 20) -> Questions:
    lines = [f'{{"prompt": "{n} + 1?", "answer": "{n + 1}"}}' for n in range(count)]
    return Questions(read_questions(file_of(tmp_path, *lines)), None, fallback="none", seed=1)


def played(world: TextWorld, says: list[int], prompt_id: int = 0) -> Played:
    return asyncio.run(
        play(
            world.episode(prompt_id), Scripted(says), prompt_id=prompt_id, group_id=0, temperature=1.0,
            clock=lambda: 0.0, within=patient(60.0),
        )
    )  # fmt: skip


def world(tmp_path: Path, *, most: int = 200, tool: PythonTool | None = None) -> TextWorld:
    return TextWorld(
        source=source(tmp_path), tokenizer=TOKENS, instruction="Box it.", max_prompt_tokens=50,
        max_response_tokens=most, tool=tool,
    )  # fmt: skip


@pytest.mark.parametrize("prompt_id", [0, 7, 40, HELD_OUT, HELD_OUT + 5])
def test_the_right_answer_earns_one_and_a_wrong_one_nothing(tmp_path: Path, prompt_id: int) -> None:
    asked = world(tmp_path)
    question = asked.source.of(prompt_id)  # type: ignore[attr-defined]
    for answer, reward in ((question.answer, 1.0), (question.answer + "1", 0.0)):
        says = [*rf"It is \boxed{{{answer}}}".encode(), END]
        made = played(asked, list(says), prompt_id)
        assert made.prompt == (BEGIN, *f"{question.prompt}\n\nBox it.".encode())
        assert made.rollout.token_ids == tuple(says)
        assert all(made.rollout.action_mask)
        assert (made.rollout.reward, made.rollout.truncated, made.turns) == (reward, False, 1)


def test_a_response_that_its_cap_cut_off_is_truncated_and_earns_nothing(tmp_path: Path) -> None:
    asked = world(tmp_path, most=20)
    answer = asked.source.of(0).answer  # type: ignore[attr-defined]
    made = played(asked, [*rf"\boxed{{{answer}}} and so on, on and on".encode()])
    assert (made.rollout.reward, made.rollout.truncated) == (0.0, True)
    assert len(made.rollout.token_ids) == 20


def test_a_prompt_that_is_too_long_fails_and_names_its_length(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{"prompt": "' + "x" * 60 + '", "answer": "1"}')
    long = read_questions(path)
    asked = TextWorld(
        source=Questions(long, long, fallback="none", seed=0), tokenizer=TOKENS, instruction="",
        max_prompt_tokens=50, max_response_tokens=10,
    )  # fmt: skip
    with pytest.raises(EnvironmentFailedError, match="prompt 0 has 61 tokens, max_prompt_tokens is 50"):
        played(asked, [])


def test_training_meets_every_question_once_an_epoch_and_no_held_out_one(tmp_path: Path) -> None:
    questions = source(tmp_path)
    count = len(questions.trained)
    epochs = [[questions.of(epoch * count + place).line for place in range(count)] for epoch in range(3)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(question.line for question in questions.trained)
    assert epochs[0] != epochs[1]
    held = {questions.of(HELD_OUT + number).line for number in range(100)}
    assert held == {10, 20}
    assert not held & set(epochs[0])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2: it is no JSON"),
        ("[" * 100_000, "line 2: it is no JSON"),
        ("3", "line 2: it is no object, got 3"),
        ('{"prompt": "x"}', "line 2: answer is missing"),
        ('{"prompt": "x", "answer": 3}', "line 2: answer is a text, got 3"),
        ('{"prompt": " ", "answer": "3"}', "line 2: prompt is empty"),
        ('{"prompt": "\\ud800", "answer": "3"}', "line 2: prompt has half of a surrogate pair"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_questions(file_of(tmp_path, '{"prompt": "x", "answer": "3"}', line))


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no question in it"):
        read_questions(file_of(tmp_path, "", "  "))
    with pytest.raises(ValueError, match="No such file"):
        read_questions(tmp_path / "none.jsonl")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match="decode"):
        read_questions(tmp_path / "latin")
    few = read_questions(file_of(tmp_path, '{"prompt": "x", "answer": "3"}'))
    with pytest.raises(ValueError, match=r"1 questions: .* held_out_path"):
        Questions(few, None, fallback="none", seed=0)


@pytest.mark.parametrize(
    ("said", "program"),
    [
        ("so\n```python\nprint(1)\n```", "print(1)\n"),
        ("```py\nx\n``` \n", "x\n"),
        ("```json\n{}\n``` then ```python\nx\n```", "x\n"),
        ("```python\nx\n```\nand so", None),
        ("```json\n{}\n```", None),
        ("```python\nx", None),
        ("``` and then ```python", None),
        ("```python```", None),
        ("no block", None),
    ],
)
def test_a_block_is_run_where_it_closes(said: str, program: str | None) -> None:
    assert block_at_end(said) == program


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        (Ran(output="3\n", ended="exit", status=0), "3"),
        (Ran(output="", ended="exit", status=137), "[exit status 137]"),
        (Ran(output="a\n", ended="time", status=137), "a\n[stopped after 10 s]"),
        (Ran(output="aaa", ended="output", status=137), "aaa\n[cut]"),
    ],
)
def test_how_a_run_ended_is_told(ran: Ran, words: str) -> None:
    assert told(ran, Limits()) == words


def tool(*, most_calls: int = 2, output_tokens: int = 50) -> PythonTool:
    return PythonTool(TOKENS, LIMITS, output_tokens=output_tokens, most_calls=most_calls)


@isolated
def test_a_model_computes_and_answers(tmp_path: Path) -> None:
    asked = world(tmp_path, tool=tool())
    answer = asked.source.of(3).answer  # type: ignore[attr-defined]
    block = f"Let me see.\n```python\nprint({answer} * 1)\n```"
    made = played(asked, [*block.encode(), *rf"\boxed{{{answer}}}".encode(), END], 3)
    output = f"\n```output\n{answer}\n```\n"
    assert bytes(made.rollout.token_ids[:-1]).decode() == rf"{block}{output}\boxed{{{answer}}}"
    ours = [not chosen for chosen in made.rollout.action_mask]
    assert sum(ours) == len(output)
    assert all(ours[len(block) : len(block) + len(output)])
    assert made.rollout.reward == 1.0


@isolated
def test_what_the_tool_prints_is_no_answer(tmp_path: Path) -> None:
    asked = world(tmp_path, tool=tool())
    answer = asked.source.of(3).answer  # type: ignore[attr-defined]
    block = f"```python\nprint(r'\\boxed', end='{{')\nprint('{answer}' + chr(125))\n```"
    assert played(asked, [*block.encode(), END], 3).rollout.reward == 0.0


@isolated
def test_long_output_is_cut_and_cannot_end_its_block(tmp_path: Path) -> None:
    asked = world(tmp_path, most=400, tool=tool(output_tokens=30))
    made = played(asked, [*b"```python\nprint('`' * 3 + 'x' * 1000)\n```", END])
    text = bytes(made.rollout.token_ids[:-1]).decode()
    assert text.endswith("\n```output\n'''" + "x" * 27 + "\n[cut]\n```\n")


@isolated
def test_calls_are_counted_and_then_refused(tmp_path: Path) -> None:
    asked = world(tmp_path, most=400, tool=tool(most_calls=1))
    made = played(asked, [*b"```python\nprint(5)\n``````python\nprint(6)\n```", END])
    text = bytes(made.rollout.token_ids[:-1]).decode()
    assert "```output\n5\n```" in text
    assert "```output\nno program is run after 1\n```" in text


@isolated
def test_an_output_at_the_very_end_is_cut_by_the_cap(tmp_path: Path) -> None:
    block = b"```python\nprint(5)\n```"
    asked = world(tmp_path, most=len(block) + 4, tool=tool())
    made = played(asked, [*block])
    assert bytes(made.rollout.token_ids) == block + b"\n```"
    assert (made.rollout.truncated, made.rollout.reward) == (True, 0.0)


def made(asked: settings.Questions | settings.ReasoningGym) -> TextWorld:
    return text_world(asked, TOKENS, seed=0, max_prompt_tokens=100, max_response_tokens=50)


def test_settings_become_a_world(tmp_path: Path) -> None:
    path = file_of(tmp_path, '{"prompt": "1 + 1?", "answer": "2"}')
    asked = settings.Questions(
        path=str(path), held_out_path=str(path), unboxed_answer="number", instruction=""
    )
    world = made(asked)
    assert world.most_tokens == 150
    assert played(world, [*b"2", END]).rollout.reward == 1.0
    assert made(settings.Questions(path=str(path), held_out_path=str(path))).tool is None


def test_a_prompt_of_a_file_that_is_too_long_is_named_by_its_line(tmp_path: Path) -> None:
    path = file_of(
        tmp_path, '{"prompt": "x", "answer": "2"}', '{"prompt": "' + "x" * 100 + '", "answer": "2"}'
    )
    asked = settings.Questions(path=str(path), held_out_path=str(path), instruction="")
    with pytest.raises(ValueError, match="line 2: prompt has 101 tokens, max_prompt_tokens is 100"):
        made(asked)


@isolated
def test_the_tool_is_made_and_tried(tmp_path: Path) -> None:
    path = str(file_of(tmp_path, '{"prompt": "x", "answer": "2"}'))
    asked = settings.Questions(path=path, held_out_path=path, python=settings.Python())
    assert made(asked).tool is not None
    missing = settings.Python(packages=str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"world.python.packages: .*none is no folder"):
        made(asked.model_copy(update={"python": missing}))
    with pytest.raises(SandboxError, match="an empty program ends with"):
        made(asked.model_copy(update={"python": settings.Python.model_construct(memory_mb=2)}))


@pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is not None, reason="reasoning-gym is here")
def test_the_extra_is_named_where_it_is_missing() -> None:
    with pytest.raises(ImportError, match=r"pip install 'policylag\[reasoning-gym\]'"):
        made(settings.ReasoningGym())
