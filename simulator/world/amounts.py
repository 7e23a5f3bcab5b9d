"""How much of something that is not an answer's length: seconds of a tool call, tokens that it returns."""

from __future__ import annotations

import math
import warnings
from typing import Annotated, Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.special import ndtri

from simulator.world.lengths import Probabilities

Nonnegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


@final
class Amount(BaseModel):
    r"""A law on numbers not below zero, by its mean; a plain number in a configuration is a constant.

    .. math:: \text{exponential:}\; Q(u) = -m \log(1 - u), \quad
        \text{Pareto:}\; Q(u) = m \tfrac{\alpha - 1}{\alpha} (1 - u)^{-1/\alpha}

    and a lognormal of mean m and coefficient of variation `cv`. A UserWarning says so where the variance is
    infinite and `most` does not make it finite: averages then hardly settle.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: Nonnegative = 0.0
    """Before `most` cuts it."""
    law: Literal["constant", "exponential", "lognormal", "pareto"] = "constant"
    cv: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Of a lognormal: standard deviation over mean."""
    tail_index: Annotated[float, Field(gt=1, le=1e6)] | None = None
    """Of a Pareto law: alpha; at 2 and below the variance is infinite."""
    most: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """What is larger ends here, as at a time-out; None for no limit."""

    @model_validator(mode="before")
    @classmethod
    def _or_a_number(cls, given: Any) -> Any:
        return {"mean": given} if isinstance(given, int | float) else given

    @model_validator(mode="after")
    def _has_its_shape(self) -> Self:
        for name, law in (("cv", "lognormal"), ("tail_index", "pareto")):
            if (getattr(self, name) is None) is (self.law == law):
                raise ValueError(
                    f"{name} belongs to a law that is {law}, got {self.law} with {name} {getattr(self, name)}"
                )
        return self

    @model_validator(mode="after")
    def _warn_of_infinite_variance(self) -> Self:
        if self.tail_index is not None and self.tail_index <= 2 and self.most is None:
            warnings.warn(
                f"Pareto amounts of tail index {self.tail_index}: the variance is infinite; set most or use"
                " quantiles",
                stacklevel=2,
            )
        return self

    @property
    def is_zero(self) -> bool:
        return self.mean == 0

    def quantile(self, probability: Probabilities, /) -> NDArray[np.float64]:
        """At `probability` in [0, 1)."""
        most = 1e9 if self.most is None else self.most
        return np.minimum(self._uncapped(np.asarray(probability, dtype=np.float64)), most)

    def _uncapped(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        match self.law:
            case "exponential":
                return -self.mean * np.log1p(-u)
            case "lognormal":
                assert self.cv is not None
                sigma = math.sqrt(math.log1p(self.cv**2))
                return np.asarray(self.mean * np.exp(sigma * ndtri(u) - sigma**2 / 2))
            case "pareto":
                assert self.tail_index is not None
                least = self.mean * (self.tail_index - 1) / self.tail_index
                return np.asarray(least * np.exp(-np.log1p(-u) / self.tail_index))
        return np.full(u.shape, self.mean)
