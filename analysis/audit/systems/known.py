"""Which systems are known, in the order in which a tie is broken?"""

from __future__ import annotations

from typing import Final

from analysis.audit.systems.areal import AREAL
from analysis.audit.systems.plain import PLAIN, POLICYLAG
from analysis.audit.systems.prime_rl import PRIME_RL
from analysis.audit.systems.skyrl import SKYRL
from analysis.audit.systems.system import System
from analysis.audit.systems.trl import TRL, TRL_ASYNC
from analysis.audit.systems.verl import VERL

SYSTEMS: Final[tuple[System, ...]] = (VERL, PRIME_RL, SKYRL, TRL, TRL_ASYNC, AREAL)
"""Those whose logs are told apart by their names."""

ALL: Final[tuple[System, ...]] = (*SYSTEMS, POLICYLAG, PLAIN)
