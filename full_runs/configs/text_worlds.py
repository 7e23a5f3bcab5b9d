"""What can be set about questions and conversations in words, which models with a tokenizer answer?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field

Setting: TypeAlias = bool | int | float | str | None
Settings: TypeAlias = Mapping[str, Setting | tuple[Setting, ...]]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class Python(_Record):
    """Python blocks in a response are run, shut in; Linux only."""

    wall_s: Annotated[float, Field(gt=0, le=3600)] = 10.0
    cpu_s: Annotated[int, Field(ge=1, le=3600)] = 5
    """Of each process."""
    memory_mb: Annotated[int, Field(ge=64, le=10**6)] = 512
    """Of each process."""
    file_mb: Annotated[int, Field(ge=1, le=10**5)] = 16
    """Of its folder."""
    processes: Annotated[int, Field(ge=2, le=1000)] = 16
    packages: str | None = None
    """A folder of packages that programs may import besides the standard library."""
    output_tokens: Annotated[int, Field(ge=1, le=10**6)] = 512
    """Of one program's output; more is cut."""
    most_calls: Annotated[int, Field(ge=1, le=1000)] = 4
    """Programs in one response."""
    isolated: bool = True
    """False: limits alone, where the kernel gives no namespaces; programs read files and use the network."""


class _Text(_Record):
    instruction: str = r"Reason step by step, and put your final answer within \boxed{}."
    """Follows each question."""
    chat_template: bool = True
    """A question is put as a user's message."""
    unboxed_answer: Literal["number", "line", "none"] = "none"
    """Where nothing is boxed: the last number, the last line, or nothing."""
    python: Python | None = None


@final
class Questions(_Text):
    """Questions with answers that can be checked, from the user's file."""

    kind: Literal["questions"] = "questions"
    path: str
    """JSONL: an object a line, with `prompt` and `answer`."""
    held_out_path: str | None = None
    """Another such file, to measure on; None holds out every tenth question of `path`."""


@final
class ReasoningGym(_Text):
    """Problems that reasoning-gym makes and judges; its extra must be installed."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    dataset: str = "chain_sum"
    settings: Settings = {}
    """Of the data set, by name."""


@final
class Verifiers(_Record):
    """An environment of the library verifiers (0.1.14 to 0.3), scored by its own rubric."""

    kind: Literal["verifiers"] = "verifiers"
    id: Annotated[str, Field(min_length=1)]
    """That `verifiers.load_environment` is given."""
    args: Settings = {}
    """Of the environment, by name."""
    python: str | None = None
    """An interpreter that has verifiers and the environment; None is the one that runs this."""
    workers: Annotated[int, Field(ge=1, le=1000)] = 1
    """Processes; each plays any number of rollouts, of which one at a time computes."""
    variables: tuple[str, ...] = ()
    """Environment variables that it may see besides the path, the home folder and the language."""
    load_timeout_s: Annotated[float, Field(gt=0, le=1e5)] = 300.0
