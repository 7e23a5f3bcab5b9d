"""How long is an answer? Length laws in whole tokens, at least one.

A law is its quantile function, so that uniform numbers from any stream, correlated or not, turn into lengths.
A cap *clips*: an answer that would be longer ends at the cap, where the law gets an atom, as a server's
`max_tokens` does.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Protocol, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.special import ndtri
from tyro.conf import subcommand

from simulator.world.deepseek_r1 import KNOT_PROBABILITIES, KNOT_TOKENS

Probabilities: TypeAlias = NDArray[np.float64]
Tokens: TypeAlias = NDArray[np.int64]
PositiveFloat: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]

LONGEST_TOKENS = 10**9
"""Where an uncapped law ends: no answer is longer, and sums of millions of them are exact integers."""


class LengthLaw(Protocol):
    """Anything that turns probabilities in [0, 1) into lengths in tokens."""

    def quantile(self, probability: Probabilities, /) -> Tokens: ...


class _Law(BaseModel):
    """A law in configuration: its parameters and an optional cap."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_tokens: PositiveInt | None = None
    """Answers are cut here; None for no cap."""

    def quantile(self, probability: Probabilities, /) -> Tokens:
        """Lengths in tokens at `probability` in [0, 1)."""
        longest = LONGEST_TOKENS if self.max_tokens is None else self.max_tokens
        return np.clip(np.rint(self._uncapped(probability)), 1, longest).astype(np.int64)

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        raise NotImplementedError


@final
class Fixed(_Law):
    """Every answer has the same length."""

    kind: Literal["fixed"] = "fixed"
    tokens: PositiveInt

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        return np.full(np.shape(probability), float(self.tokens))


@final
class Exponential(_Law):
    """Memoryless lengths."""

    kind: Literal["exponential"] = "exponential"
    mean_tokens: PositiveFloat

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        return -self.mean_tokens * np.log1p(-probability)


@final
class LogNormal(_Law):
    """Lengths whose logarithm is normal, by mean and standard deviation *of the length*, in tokens."""

    kind: Literal["lognormal"] = "lognormal"
    mean_tokens: PositiveFloat
    sd_tokens: PositiveFloat

    @model_validator(mode="after")
    def _has_a_shape(self) -> Self:
        if self.sd_tokens / self.mean_tokens > 1e6:
            raise ValueError(
                f"sd_tokens ({self.sd_tokens}) is over a million times mean_tokens ({self.mean_tokens})"
            )
        return self

    @property
    def sigma(self) -> float:
        """Standard deviation of log L: sqrt(log(1 + (sd / mean)^2))."""
        return math.sqrt(math.log1p((self.sd_tokens / self.mean_tokens) ** 2))

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        return self.mean_tokens * np.exp(self.sigma * ndtri(probability) - self.sigma**2 / 2)


@final
class LogNormalOfLog(_Law):
    """Lengths whose logarithm is normal, by mean and standard deviation of the *logarithm*."""

    kind: Literal["lognormal_of_log"] = "lognormal_of_log"
    mu: Annotated[float, Field(ge=-700, le=700)]
    """Mean of log L; e^mu tokens is the median length."""
    sigma: PositiveFloat
    """Standard deviation of log L."""

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        return np.exp(self.mu + self.sigma * ndtri(probability))


@final
class Pareto(_Law):
    """P(L > x) = (minimum / x)^shape for x >= minimum: the Pareto law, not the Lomax one that numpy draws.

    A UserWarning says so where variance or mean is infinite and no cap makes it finite: averages then never
    settle.

    References:
        numpy.random.pareto is Lomax: https://github.com/numpy/numpy/issues/4181.
    """

    kind: Literal["pareto"] = "pareto"
    shape: PositiveFloat
    minimum_tokens: PositiveFloat

    @model_validator(mode="after")
    def _warn_of_infinite_moments(self) -> Self:
        if self.shape <= 2 and self.max_tokens is None:
            what = "mean and variance are" if self.shape <= 1 else "variance is"
            warnings.warn(
                f"Pareto lengths of shape {self.shape}: the {what} infinite; set max_tokens or use quantiles",
                stacklevel=2,
            )
        return self

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        return self.minimum_tokens * np.exp(-np.log1p(-probability) / self.shape)


@final
class DeepSeekR1(_Law):
    """The lengths of DeepSeek-R1's answers in production: see `world.deepseek_r1`."""

    kind: Literal["deepseek_r1"] = "deepseek_r1"

    def _uncapped(self, probability: Probabilities) -> NDArray[np.float64]:
        log_tokens = np.interp(probability, KNOT_PROBABILITIES, np.log(KNOT_TOKENS))
        return np.asarray(np.exp(log_tokens))


@final
class Trace(_Law):
    """The lengths in a CSV file: see `world.trace_csv`. It is read by `config.length_law`."""

    kind: Literal["trace"] = "trace"
    path: str
    column: str = "tokens"
    weights_column: str | None = None
    """Column of weights; None takes `prob` if the file has it and counts every row once otherwise."""


@final
@dataclass(frozen=True, kw_only=True)
class Empirical:
    """The lengths that were seen, as often as they were seen."""

    values_tokens: Tokens
    weights: NDArray[np.float64] | None = None
    """How often each value occurs, in any unit; None counts each once."""
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        values = self.values_tokens
        if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iu" or values.min() < 1:
            raise ValueError("values_tokens must be a non-empty vector of whole numbers of at least 1")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        weights = self.weights
        if weights is not None and not (
            weights.shape == values.shape
            and np.isfinite(weights).all()
            and (weights >= 0).all()
            and weights.any()
        ):
            raise ValueError("weights must be finite, not negative, not all zero, and one a value")

    @cached_property
    def _table(self) -> tuple[Tokens, NDArray[np.float64]]:
        order = np.argsort(self.values_tokens, kind="stable")
        weights = np.ones(len(order)) if self.weights is None else self.weights[order]
        return self.values_tokens[order].astype(np.int64), np.cumsum(weights) / np.sum(weights)

    def quantile(self, probability: Probabilities, /) -> Tokens:
        """The smallest value with P(L <= value) > `probability`."""
        values, cumulative = self._table
        places = np.minimum(np.searchsorted(cumulative, probability, side="right"), len(values) - 1)
        return np.asarray(np.minimum(values[places], self.max_tokens or LONGEST_TOKENS))


Law: TypeAlias = (
    Fixed
    | Exponential
    | Annotated[LogNormal, subcommand("lognormal")]  # on the command line by its kind, not as log-normal
    | Annotated[LogNormalOfLog, subcommand("lognormal-of-log")]
    | Pareto
    | Annotated[DeepSeekR1, subcommand("deepseek-r1")]
    | Trace
)


def clipped_share(law: LengthLaw, max_tokens: int) -> float:
    """What share of the answers would a cap at `max_tokens` cut? P(L > max_tokens), to 1e-12."""
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if law.quantile(np.array([middle]))[0] > max_tokens:
            high = middle
        else:
            low = middle
    return 1.0 - high


def mean_tokens(law: LengthLaw, points: int = 200_000) -> float:
    r"""Mean length, :math:`\int_0^1 Q(u)\,du`, by midpoints that crowd towards the tail.

    The substitution u = 1 - (1 - s)^4 makes the integrand bounded for every law with a finite variance.
    """
    s = (np.arange(points) + 0.5) / points
    # The quantile of exactly one may be infinite, and the last midpoints round to it.
    lengths = law.quantile(np.minimum(1 - (1 - s) ** 4, 1 - 2.0**-53))
    return float(np.mean(lengths * 4 * (1 - s) ** 3))
