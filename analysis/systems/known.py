"""Which systems are known, in the order in which a tie is broken?"""

from __future__ import annotations

from typing import Final

from analysis.systems.areal import AREAL
from analysis.systems.plain import PLAIN, POLICYLAG
from analysis.systems.prime_rl import PRIME_RL
from analysis.systems.skyrl import SKYRL
from analysis.systems.system import System
from analysis.systems.trl import TRL, TRL_ASYNC
from analysis.systems.verl import VERL

SYSTEMS: Final[tuple[System, ...]] = (VERL, PRIME_RL, SKYRL, TRL, TRL_ASYNC, AREAL)
"""Those whose logs are told apart by their names."""

ALL: Final[tuple[System, ...]] = (*SYSTEMS, POLICYLAG, PLAIN)
