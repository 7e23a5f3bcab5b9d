"""How does an engine draw tokens, so that its log-probs are those that the estimators need?

An engine that reports *processed* log-probs has the temperature inside them, so a temperature other than 1
only has to be told to the trainer. What cuts the distribution (top-p, top-k, min-p) or reweighs it by what
was said before (penalties) has no counterpart in the trainer's log-probs: it would enter every ratio as a
difference that is not staleness, so it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

NEUTRAL: Final[Mapping[str, float]] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Settings that leave the model's distribution as it is. They are always sent: a server takes those that are
missing from the model's own `generation_config.json`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn.

    Raises:
        ValueError: a temperature that is not positive, or another setting that is not neutral.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        for name, neutral in NEUTRAL.items():
            if (got := getattr(self, name)) != neutral:
                raise ValueError(
                    f"{name} must be {neutral}, got {got}: the trainer's log-probs are those of the whole"
                    " distribution, so the difference would look like staleness"
                )

    def request(
        self, *, max_tokens: int, stop_token_ids: tuple[int, ...], seed: int | None
    ) -> dict[str, Any]:
        """The `sampling_params` of a request, one log-prob a token included."""
        return {
            **NEUTRAL,
            "temperature": self.temperature,
            "max_tokens": max_tokens,
            "stop_token_ids": list(stop_token_ids),
            "logprobs": 0,
            "ignore_eos": True,  # what ends an answer is the environment's to say
            "detokenize": False,
            **({} if seed is None else {"seed": seed}),
        }
