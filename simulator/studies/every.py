"""Which studies are there? A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from pydantic import BaseModel

from simulator.studies import (
    barrier,
    clipping,
    law,
    online,
    quick,
    sao_ablation,
    selection,
    stabilisers,
    staleness,
)
from simulator.studies.plan import Plan


class Study(Protocol):
    """What a study's module offers."""

    @property
    def SIZES(self) -> Mapping[str, BaseModel]:  # noqa: N802 - a module's constant
        """Configurations of one class by size, "small" (minutes on a laptop) and "full" among them."""

    def plan(self, config: Any, /) -> Plan:
        """The grid of runs of a configuration of that class."""


STUDIES: Final[Mapping[str, Study]] = {
    "quick": quick,
    "staleness": staleness,
    "law": law,
    "clipping": clipping,
    "sao-ablation": sao_ablation,
    "barrier": barrier,
    "online": online,
    "selection": selection,
    "stabilisers": stabilisers,
}
"""By the name that `policylag study` takes; the first is what it lists first."""
