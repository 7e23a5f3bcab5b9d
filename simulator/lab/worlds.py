"""Which small world is learned? One record a world; `simulator.lab.tasks.every` builds it.

Records alone: no torch, so that a command line can read them in no time.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class ModularAdditionWorld(_Record):
    """Answer (a + b) mod V, several times in a row; two thousand parameters, exactly measured."""

    kind: Literal["modular_addition"] = "modular_addition"
    modulus: Annotated[int, Field(ge=2, le=32)] = 10
    """Answers are (a + b) mod this; also the size of the vocabulary."""
    questions: Annotated[int, Field(ge=1, le=1024)] = 8
    """Answer tokens of a rollout; each stands for an equal share of the rollout's simulated tokens."""
    hidden: Annotated[int, Field(ge=1, le=4096)] = 64
    """Width of the policy and of the critic."""


World: TypeAlias = ModularAdditionWorld
