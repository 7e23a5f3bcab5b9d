r"""How fast does an engine decode? Whole rollouts at a time, solved exactly between events.

With n rollouts running that hold K tokens of keys and values, one decode step takes a + b n + c K seconds
and gives each of them one token, so K grows by n a step. Taken as continuous, u more tokens each take

.. math:: (a + b n + c K) u + \tfrac{1}{2} c n u^2

seconds, for as long as nobody joins or leaves. Steps of different rollouts need not begin together
(*choice*: one that joins does not wait for the end of the others' step).
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, Self, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]

TIE_TOKENS: Final = 1e-6
"""Two positions this close, in tokens, are one: sums of times carry rounding errors."""


class _Engine(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class FixedSpeed(_Engine):
    """Every slot makes its tokens at one speed, whatever else the engine runs; prompts cost nothing."""

    kind: Literal["fixed_speed"] = "fixed_speed"
    seconds_per_token: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 0.02


@final
class LoadDependent(_Engine):
    """A step takes `step_fixed_s + step_s_per_rollout * n + step_s_per_kv_token * K` seconds."""

    kind: Literal["load_dependent"] = "load_dependent"
    step_fixed_s: Seconds = 0.01
    """Reading the weights, launching kernels: whatever a step costs alone."""
    step_s_per_rollout: Seconds = 1e-4
    step_s_per_kv_token: Seconds = 1e-9
    """Reading the keys and values of one token."""
    prefill_s_per_token: Seconds = 0.0
    """Decoding stands still while a prefix is computed (*choice*: no chunked prefill beside decoding)."""
    kv_capacity_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Keys and values that fit, in tokens; None for no limit."""

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if self.step_fixed_s + self.step_s_per_rollout <= 0:
            raise ValueError("step_fixed_s and step_s_per_rollout are both 0: a step must take time")
        return self


Engine: TypeAlias = FixedSpeed | LoadDependent


def decode_s(tokens: float, step_s: float, growth_s: float) -> float:
    r"""Seconds that `tokens` more take: :math:`\alpha u + \beta u^2 / 2`.

    Args:
        tokens: u, at least 0, of every running rollout.
        step_s: alpha = a + b n + c K, the step as it begins.
        growth_s: beta = c n, what each step adds to the next.
    """
    return tokens * (step_s + 0.5 * growth_s * tokens)


def decoded_tokens(seconds: float, step_s: float, growth_s: float) -> float:
    r"""Tokens that every running rollout makes in `seconds`: the inverse of `decode_s`.

    .. math:: u = \frac{2 t}{\alpha + \sqrt{\alpha^2 + 2 \beta t}}

    This form of the root neither cancels nor divides by a growth of zero.
    """
    if seconds <= 0:
        return 0.0
    return 2.0 * seconds / (step_s + math.sqrt(step_s * step_s + 2.0 * growth_s * seconds))


def tokens_until_full(capacity_tokens: float, kv_tokens: float, running: int) -> float:
    """Tokens that each of `running` rollouts can still make before their keys and values fill the engine."""
    return max(0.0, capacity_tokens - kv_tokens) / running


def whole_tokens(tokens: float) -> int:
    """Tokens that are finished; the one under way is not, unless only rounding keeps it."""
    return math.floor(tokens + TIE_TOKENS)
