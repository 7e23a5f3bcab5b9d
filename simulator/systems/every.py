"""Every system whose rule can be asked for."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from simulator.systems.aged import (
    GLM5,
    SAO,
    TRL,
    KimiPartial,
    Laminar,
    Miles,
    MinimaxWfifo,
    OpenRLHF,
    PrimeRL,
    Slime,
    Torchforge,
)
from simulator.systems.base import System
from simulator.systems.gated import (
    Areal,
    NemoInOrder,
    NemoReadyFirst,
    NemoWindowed,
    OpenInstruct,
    PipelineRL,
    Roll,
    SkyRL,
    Tinker,
    VerlFullyAsync,
    VerlOneStepOff,
    VerlV1Drop,
    VerlV1Wait,
)

AnySystem: TypeAlias = (
    Areal
    | SkyRL
    | Roll
    | Tinker
    | OpenInstruct
    | PipelineRL
    | VerlOneStepOff
    | VerlFullyAsync
    | VerlV1Drop
    | VerlV1Wait
    | PrimeRL
    | Miles
    | TRL
    | GLM5
    | SAO
    | NemoWindowed
    | NemoReadyFirst
    | NemoInOrder
    | OpenRLHF
    | KimiPartial
    | Slime
    | Torchforge
    | MinimaxWfifo
    | Laminar
)

SYSTEMS: Final[tuple[type[System], ...]] = get_args(AnySystem)
