"""By which rule may data be old? Those that a configuration names; the rules of systems are in `systems`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field

from simulator.systems.every import AnySystem

# Upper bounds keep sums exact and finite; they are far beyond any machine.
Count: TypeAlias = Annotated[int, Field(ge=1, le=10**7)]
Time: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class Sync(Record):
    """Generate, train, push; nothing overlaps."""

    kind: Literal["sync"] = "sync"


@final
class OneStepOff(Record):
    """The next batch is generated while this one trains: lag one batch, exactly."""

    kind: Literal["one_step_off"] = "one_step_off"


@final
class BoundedLag(Record):
    """AReaL's gate: generation runs at most `eta_batches` ahead."""

    kind: Literal["bounded_lag"] = "bounded_lag"
    eta_batches: Annotated[int, Field(ge=0)]
    max_concurrent_rollouts: Count | None = None


@final
class DropByAge(Record):
    """Start freely; at consumption throw away what is more than `max_lag_updates` old."""

    kind: Literal["drop_by_age"] = "drop_by_age"
    max_lag_updates: Annotated[int, Field(ge=0)]


@final
class Unbounded(Record):
    """Start freely, train on everything."""

    kind: Literal["unbounded"] = "unbounded"


StalenessRule: TypeAlias = Sync | OneStepOff | BoundedLag | DropByAge | Unbounded | AnySystem
