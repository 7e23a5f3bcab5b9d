"""Systems that drop by age, work in rounds, or choose whom to train."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field

from simulator.rules.staleness import Replacement
from simulator.rules.systems import ages, buffers, rounds
from simulator.systems.base import Positive, Share, System, Whole


@final
class PrimeRL(System):
    """Dropped, or cancelled while it runs, when more than so many updates old."""

    kind: Literal["prime_rl"] = "prime_rl"
    max_off_policy_steps: Whole = 8
    make = staticmethod(ages.prime_rl)


@final
class Miles(System):
    """A full buffer blocks producers; a bound on age in engine versions is optional."""

    kind: Literal["miles"] = "miles"
    max_weight_staleness: Whole | None = None
    buffer_factor: Annotated[float, Field(ge=1, le=10**4)] = 2.0
    replacement: Replacement = "new_prompt"
    make = staticmethod(ages.miles)


@final
class TRL(System):
    """Dropped at the take when more than so many pushes old."""

    kind: Literal["trl"] = "trl"
    max_staleness: Positive = 4
    make = staticmethod(ages.trl)


@final
class GLM5(System):
    """Dropped when more than tau pushes old."""

    kind: Literal["glm5"] = "glm5"
    max_age_pushes: Whole = 4
    make = staticmethod(ages.glm5)


@final
class SAO(System):
    """One rollout a prompt, trained as soon as a batch of them has ended."""

    kind: Literal["sao"] = "sao"
    max_lag_updates: Whole | None = None
    make = staticmethod(ages.sao)


@final
class OpenRLHF(System):
    """A pool of one batch, handed back at the take."""

    kind: Literal["openrlhf"] = "openrlhf"
    partial_rollout: bool = False
    make = staticmethod(rounds.openrlhf)


@final
class KimiPartial(System):
    """Rounds that end when a share is done; the rest goes on first in the next."""

    kind: Literal["kimi_partial"] = "kimi_partial"
    finished_share: Share = 0.5
    make = staticmethod(rounds.kimi_partial)


@final
class Slime(System):
    """Groups in flight are aborted at a sync and begin again."""

    kind: Literal["slime"] = "slime"
    make = staticmethod(buffers.slime)


@final
class Torchforge(System):
    """Uniformly at random from a buffer; what is too old is evicted."""

    kind: Literal["torchforge"] = "torchforge"
    max_policy_age: Whole = 1
    make = staticmethod(buffers.torchforge)


@final
class MinimaxWfifo(System):
    """First in, first out within a window of submissions."""

    kind: Literal["minimax_wfifo"] = "minimax_wfifo"
    window_share: Share = 0.3
    generation_rollouts: Positive | None = None
    make = staticmethod(buffers.minimax_wfifo)


@final
class Laminar(System):
    """An engine takes new weights when it has run empty."""

    kind: Literal["laminar"] = "laminar"
    make = staticmethod(buffers.laminar)
