"""Which small world is learned? One record a world; `simulator.lab.tasks.every` builds it.

Records alone: no torch, so that a command line can read them in no time.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@final
class ModularAdditionWorld(_Record):
    """Answer (a + b) mod V, several times in a row; two thousand parameters, exactly measured."""

    kind: Literal["modular_addition"] = "modular_addition"
    modulus: Annotated[int, Field(ge=2, le=32)] = 10
    """Answers are (a + b) mod this; also the size of the vocabulary."""
    questions: Annotated[int, Field(ge=1, le=1024)] = 8
    """Answer tokens of a rollout; each stands for an equal share of the rollout's simulated tokens."""
    hidden: Annotated[int, Field(ge=1, le=4096)] = 64
    """Width of the policy and of the critic."""


@final
class BandBitsWorld(_Record):
    """So many coins, right iff the share that shows one lies in a band; made for plain gradient descent."""

    kind: Literal["band_bits"] = "band_bits"
    bits: Annotated[int, Field(ge=1, le=4096)] = 64
    low: Annotated[float, Field(ge=0, le=1)] = 0.6
    high: Annotated[float, Field(ge=0, le=1)] = 0.7


@final
class BigramWorld(_Record):
    """A language whose policy is a table of bigrams; its true gradient can be listed."""

    kind: Literal["bigram"] = "bigram"
    vocabulary: Annotated[int, Field(ge=2, le=16)] = 5
    length: Annotated[int, Field(ge=2, le=12)] = 6


class _Played(_Record):
    """What all worlds of a small language model have in common."""

    width: Annotated[int, Field(ge=1, le=4096)] = 96
    """Of the network, policy and critic alike."""
    depth: Annotated[int, Field(ge=1, le=64)] = 2
    """Layers."""
    heads: Annotated[int, Field(ge=1, le=64)] = 2
    warm_start_accuracy: Annotated[float, Field(gt=0, le=1)] = 0.4
    """Mean reward at which teaching by demonstrations stops and learning by reward begins."""
    warm_start_steps: Annotated[int, Field(ge=1, le=1_000_000)] = 3000
    """Batches of demonstrations at most; a run whose model is not that good by then does not begin."""
    evaluate_every: Annotated[int, Field(ge=1)] = 20
    """Updates between two measurements on held-out prompts."""
    after_push: Literal["keep_cache", "recompute_cache"] = "keep_cache"
    """What becomes of keys and values where a push falls into a rollout."""


@final
class CarryAdditionWorld(_Played):
    """Add two numbers of one to so many digits: long sums are hard, and long."""

    kind: Literal["carry_addition"] = "carry_addition"
    most_digits: Annotated[int, Field(ge=1, le=8)] = 4


@final
class ToolLookupWorld(_Played):
    """Follow pointers that only the environment knows, over turns of calls and observations."""

    kind: Literal["tool_lookup"] = "tool_lookup"
    most_turns: Annotated[int, Field(ge=2, le=40)] = 12
    """Calls and the answer of the deepest prompt; the shallowest has two turns."""
    tail: Annotated[float, Field(gt=0)] = 1.0
    """Exponent of the depths' tail: the smaller, the heavier."""
    crash_probability: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """That a call crashes its environment."""
    crashed_rollouts: Literal["zero", "leave_out"] = "zero"
    """*Choice*: a rollout whose environment crashed earns 0, or, as in GLM-5, it is left out of the loss.
    Then it keeps its place in a batch and has no reward; the log counts those (`left_out_rollouts`)."""
    observation_tokens: Annotated[int, Field(ge=1, le=64)] = 1


@final
class StyleDriftWorld(_Played):
    """One of three styles is rewarded, and which one changes without notice; no prompt comes back."""

    kind: Literal["style_drift"] = "style_drift"
    shifts: tuple[int, ...] = (25_600, 51_200)
    """Prompts at which the rewarded style changes, in the order in which users arrive."""
    warm_start_accuracy: Annotated[float, Field(gt=0, le=1)] = 0.25
    """All three styles are taught alike, so a third is the most that can be had."""


World: TypeAlias = (
    ModularAdditionWorld
    | CarryAdditionWorld
    | ToolLookupWorld
    | StyleDriftWorld
    | BandBitsWorld
    | BigramWorld
)
