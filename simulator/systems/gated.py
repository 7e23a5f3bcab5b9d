"""Systems that bound how far submission runs ahead, or how many are under way."""

from __future__ import annotations

from typing import Annotated, Literal, final

from pydantic import Field

from simulator.rules.systems import gates, nemo, verl
from simulator.systems.base import Positive, System, Whole


@final
class Areal(System):
    """Submission runs at most eta batches ahead; prefixes are computed again at a push."""

    kind: Literal["areal"] = "areal"
    max_head_offpolicyness: Whole = 4
    max_concurrent_rollouts: Positive | None = None
    make = staticmethod(gates.areal)


@final
class SkyRL(System):
    """AReaL's gate; keys and values are kept at a push."""

    kind: Literal["skyrl"] = "skyrl"
    max_staleness_steps: Whole = 4
    make = staticmethod(gates.skyrl)


@final
class Roll(System):
    """A fraction of a batch ahead; what began too many steps ago is aborted."""

    kind: Literal["roll"] = "roll"
    async_generation_ratio: Annotated[float, Field(ge=0, le=10**4)] = 1.0
    make = staticmethod(gates.roll)


@final
class Tinker(System):
    """k + 1 batches started and not trained; older than k steps is replaced."""

    kind: Literal["tinker"] = "tinker"
    max_steps_off_policy: Whole = 3
    make = staticmethod(gates.tinker)


@final
class OpenInstruct(System):
    """So many batches of prompts in flight; what is older is asked again."""

    kind: Literal["open_instruct"] = "open_instruct"
    async_steps: Positive = 4
    make = staticmethod(gates.open_instruct)


@final
class PipelineRL(System):
    """Weights change in flight; a gate only if a lag in samples is named."""

    kind: Literal["pipelinerl"] = "pipelinerl"
    max_lag_samples: Whole | None = None
    make = staticmethod(gates.pipelinerl)


@final
class VerlOneStepOff(System):
    """The next batch is generated while this one trains."""

    kind: Literal["verl_one_step_off"] = "verl_one_step_off"
    make = staticmethod(verl.verl_one_step_off)


@final
class VerlFullyAsync(System):
    """Between two syncs at most (1 + s) times what they train is started."""

    kind: Literal["verl_fully_async"] = "verl_fully_async"
    staleness_threshold: Annotated[float, Field(ge=0, le=10**4)] = 0.5
    partial_rollout: bool = True
    make = staticmethod(verl.verl_fully_async)


@final
class VerlV1Drop(System):
    """Groups that have reached an age are evicted and replaced."""

    kind: Literal["verl_v1_drop"] = "verl_v1_drop"
    max_age_steps: Positive = 8
    outstanding_batches: Positive | None = None
    make = staticmethod(verl.verl_v1_drop)


@final
class VerlV1Wait(System):
    """The trainer waits for groups that have reached an age."""

    kind: Literal["verl_v1_wait"] = "verl_v1_wait"
    max_age_steps: Positive = 8
    outstanding_batches: Positive | None = None
    make = staticmethod(verl.verl_v1_wait)


@final
class NemoWindowed(System):
    """No gate; what began before the window is evicted; the freshest first."""

    kind: Literal["nemo_windowed"] = "nemo_windowed"
    max_trajectory_age_steps: Whole = 1
    make = staticmethod(nemo.nemo_windowed)


@final
class NemoReadyFirst(System):
    """Dispatch runs a window ahead; the first that are ready are trained."""

    kind: Literal["nemo_ready_first"] = "nemo_ready_first"
    window_steps: Positive = 2
    make = staticmethod(nemo.nemo_ready_first)


@final
class NemoInOrder(System):
    """Dispatch runs a window ahead; step k trains what was dispatched for it, and stalls."""

    kind: Literal["nemo_in_order"] = "nemo_in_order"
    window_steps: Positive = 2
    make = staticmethod(nemo.nemo_in_order)
