"""How does a model run Python in the midst of a response? It writes a fenced block, and the output follows.

*Choices*, as in ToRA and ReTool: the block is ```python ... ```; as soon as it closes it is run, and the
output follows in a block of its own within the same message. Each block is a fresh program. A program whose
text holds three backticks ends at those.

References:
    https://arxiv.org/abs/2309.17452 (ToRA)
    https://arxiv.org/abs/2504.11536 (ReTool)
"""

from __future__ import annotations

from typing import Final, final

from full_runs.tasks.sandbox import Limits, Ran, run_python
from full_runs.tasks.tokenizer import Tokenizer

FENCE: Final = "```"
_LANGUAGES: Final = ("python", "py")
_CUT: Final = "\n[cut]"


@final
class PythonTool:
    """Runs each block in the sandbox.

    Args:
        tokenizer: the model's.
        limits: of each program.
        output_tokens: of what is said about one run, fences aside.
        most_calls: later ones are answered with a refusal.
    """

    def __init__(self, tokenizer: Tokenizer, limits: Limits, *, output_tokens: int, most_calls: int) -> None:
        self._tokenizer = tokenizer
        self._limits = limits
        self._output_tokens = output_tokens
        self._most_calls = most_calls
        # A vocabulary without the whole fence writes it in pieces: then every backtick is looked at.
        self.stops: tuple[int, ...] = tokenizer.holding(FENCE) or tokenizer.holding(FENCE[0])

    async def reply(self, said: str, calls: int, /) -> tuple[int, ...] | None:
        program = block_at_end(said)
        if program is None:
            return None
        if calls < self._most_calls:
            words = told(await run_python(program, self._limits), self._limits)
        else:
            words = f"no program is run after {self._most_calls}"
        encoded = self._tokenizer.encode
        # A fence in the output would end its block: what follows could pass for the model's own.
        output = encoded(words.replace(FENCE, "'''"))
        if len(output) > self._output_tokens:
            output = (*output[: self._output_tokens], *encoded(_CUT))
        return (*encoded(f"\n{FENCE}output\n"), *output, *encoded(f"\n{FENCE}\n"))


def block_at_end(said: str) -> str | None:
    """The program in the Python block with which a text ends; None if it ends with none."""
    parts = said.split(FENCE)
    # Fences open and close in turn: an even count of them leaves none open.
    if len(parts) < 3 or len(parts) % 2 == 0 or parts[-1].strip():
        return None
    language, newline, program = parts[-2].partition("\n")
    return program if newline and language.strip().lower() in _LANGUAGES else None


def told(ran: Ran, limits: Limits) -> str:
    """A run in words: its output, and how it ended if not well."""
    ends = {
        "exit": f"[exit status {ran.status}]" if ran.status else "",
        "time": f"[stopped after {limits.wall_s:g} s]",
        "output": _CUT.strip(),
    }
    return "\n".join(part for part in (ran.output.rstrip("\n"), ends[ran.ended]) if part)
