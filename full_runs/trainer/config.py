"""What is a trainer told before it starts?"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, Self, final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from algorithms.critic import nothing
from simulator.lab.methods import METHODS, Method

_COUNT = Field(ge=1)


@final
class CriticConfig(BaseModel):
    """What of SAO's recipe is exchanged; None leaves the method's own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    updates_per_policy_update: Annotated[int, _COUNT] | None = None
    learning_rate_ratio: Annotated[float, Field(gt=0)] | None = None
    critic_only_updates: Annotated[int, Field(ge=0)] | None = None
    learning_rate_warmup_updates: Annotated[int, Field(ge=0)] | None = None
    value_when: Literal["before", "after"] | None = None
    attention_trains: bool = False
    """True: the full-parameter critic of the ablation."""

    def changes(self) -> dict[str, Any]:
        """Fields of `CriticRecipe` to replace."""
        changed = {k: v for k, v in self.model_dump(exclude={"attention_trains"}).items() if v is not None}
        return changed | ({"frozen": nothing} if self.attention_trains else {})


@final
class TrainerConfig(BaseModel):
    """A model, a method, and how both are laid out over ranks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: str
    """A folder with safetensors and config.json, or a name on the hub."""
    estimator: str
    """One of `simulator.lab.methods.METHODS`."""
    eps_low: Annotated[float, Field(ge=0)] | None = None
    """Half-width of the estimator's band below 1; None is the estimator's own."""
    eps_high: Annotated[float, Field(ge=0)] | None = None
    """Half-width of the estimator's band above 1; None is the estimator's own."""
    critic: CriticConfig = CriticConfig()
    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = 1e-6
    """The policy's."""
    optimizer: Literal["adam", "sgd"] = "adam"
    max_gradient_norm: Annotated[float, Field(gt=0)] | None = None
    """The policy's gradient is shortened to it; None leaves it as it is."""
    tokens_at_once: Annotated[int, _COUNT] | None = None
    """A micro-batch has at most so many tokens, padding included; None is one micro-batch a rank."""
    packed: bool = False
    """Rollouts stand one behind another, without padding."""
    scored_first: bool = True
    """With several micro-batches, a pass without gradient goes first, which the advantage may read. False
    spares it; an advantage that reads the policy's log-probs is then refused."""
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the passes; weights, gradients and optimizer are float32."""
    checkpointed: bool = False
    """Blocks are computed anew for the backward pass: less memory, a third more computing."""
    logits_at_once: Annotated[int, _COUNT] = 2**25
    """At most so many logits are in memory together."""
    collective_timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """One rank waits for another at most so long. A rank that died is noticed at once."""

    @model_validator(mode="after")
    def _is_a_method(self) -> Self:
        self.method()
        return self

    def method(self) -> Method:
        """The method that is named here, with what is exchanged in it.

        Raises:
            ValueError: no such method, a band that it does not have, or a critic's option without a critic.
        """
        if self.estimator not in METHODS:
            raise ValueError(f"estimator {self.estimator!r} is none of {', '.join(sorted(METHODS))}")
        widths = {"eps_low": self.eps_low, "eps_high": self.eps_high}
        given = {name: width for name, width in widths.items() if width is not None}
        try:
            method = METHODS[self.estimator](**given)
        except TypeError:
            raise ValueError(f"{self.estimator} has no band of this kind, got {given}") from None
        changes = self.critic.changes()
        if not changes:
            return method
        if method.estimator.critic is None:
            raise ValueError(f"critic: {self.estimator} has none, got {sorted(changes)}")
        recipe = dataclasses.replace(method.estimator.critic, **changes)
        return dataclasses.replace(method, estimator=dataclasses.replace(method.estimator, critic=recipe))
