"""How do settings become a world of questions? Files, sandbox and library are tried before a run begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from full_runs.configs import text_worlds as settings
from full_runs.tasks.gym import ReasoningGym
from full_runs.tasks.python_tool import PythonTool
from full_runs.tasks.questions import Question, Questions, read_questions
from full_runs.tasks.sandbox import Limits, check
from full_runs.tasks.text import Source, TextWorld
from full_runs.tasks.tokenizer import Tokenizer


def text_world(
    asked: settings.Questions | settings.ReasoningGym,
    tokenizer: Tokenizer,
    *,
    seed: int,
    max_prompt_tokens: int,
    max_response_tokens: int,
) -> TextWorld:
    """The world that was asked for.

    Raises:
        ValueError: a file or a line of it cannot be used, or a prompt is too long.
        SandboxError: programs cannot be shut in here.
        ImportError: reasoning-gym is not installed.
    """
    files: dict[str, Sequence[Question]] = {}
    source: Source
    match asked:
        case settings.Questions():
            files = {path: read_questions(Path(path)) for path in (asked.path, asked.held_out_path) if path}
            held_out = files[asked.held_out_path] if asked.held_out_path else None
            source = Questions(files[asked.path], held_out, fallback=asked.unboxed_answer, seed=seed)
        case settings.ReasoningGym():
            source = ReasoningGym(asked.dataset, asked.settings, seed=seed, fallback=asked.unboxed_answer)
    world = TextWorld(
        source=source,
        tokenizer=tokenizer,
        instruction=asked.instruction,
        max_prompt_tokens=max_prompt_tokens,
        max_response_tokens=max_response_tokens,
        tool=None if asked.python is None else _tool(asked.python, tokenizer),
    )
    for path, questions in files.items():
        _fit(world, path, questions)
    return world


def _tool(asked: settings.Python, tokenizer: Tokenizer) -> PythonTool:
    if asked.packages is not None and not Path(asked.packages).is_dir():
        raise ValueError(f"world.python.packages: {asked.packages} is no folder")
    limits = Limits(
        wall_s=asked.wall_s,
        cpu_s=asked.cpu_s,
        memory_mb=asked.memory_mb,
        file_mb=asked.file_mb,
        processes=asked.processes,
        packages=None if asked.packages is None else Path(asked.packages),
        isolated=asked.isolated,
    )
    check(limits)
    return PythonTool(tokenizer, limits, output_tokens=asked.output_tokens, most_calls=asked.most_calls)


def _fit(world: TextWorld, path: str, questions: Sequence[Question]) -> None:
    for question in questions:
        tokens, most = len(world.asked(question.prompt)), world.max_prompt_tokens
        if tokens > most:
            raise ValueError(
                f"{path}, line {question.line}: prompt has {tokens} tokens, max_prompt_tokens is {most}"
            )
