"""What is the configuration of a system's rule?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from simulator.rules.staleness import Staleness
from simulator.rules.systems.progress import must_go_on
from simulator.rules.systems.shape import Shape

Whole: TypeAlias = Annotated[int, Field(ge=0, le=10**7)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]


class System(BaseModel):
    """A system's rule and its settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    make: ClassVar[Callable[..., Staleness]]

    def rule(self, shape: Shape) -> Staleness:
        """The decisions, for a pipeline of this shape.

        Raises:
            ValueError: the settings do not suit the shape, or could never train all batches of a push.
        """
        settings: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        del settings["kind"]
        made = type(self).make(shape, **settings)
        must_go_on(made, shape)
        return made
