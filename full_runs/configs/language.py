"""Which language model answers in words, and how long are its prompts and responses?"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Tokens: TypeAlias = Annotated[float, Field(gt=0, le=1e7)]


class Language(BaseModel):
    """A model with a tokenizer. The tiny model has neither, and its world says how long a response may be."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str | None = None
    """Name on the Hugging Face hub, or a folder; None is the tiny model, made here."""
    max_prompt_tokens: Count = 1024
    max_response_tokens: Count = 8192
    mean_response_tokens: Tokens = 2000.0
    """Expected, for the plan: a run makes its own. Lognormal, cut at `max_response_tokens`."""
    sd_response_tokens: Tokens = 2000.0

    @property
    def longest_tokens(self) -> int:
        """Of a prompt and its response."""
        return self.max_prompt_tokens + self.max_response_tokens
