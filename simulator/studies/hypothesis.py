"""What is claimed, before the runs are looked at? One frozen record a claim; `analysis.verdict` judges it.

Pure data, so that a study can be written down, hashed and stored in its `config.json` (through
`dataclasses.asdict`) before the first run starts, and read back with `Hypothesis(**stored)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

Kind = Literal["paired_difference", "event_share", "time_to_target", "threshold"]
Direction = Literal["higher", "lower"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One claim about one per-seed outcome of one or two arms.

    `kind` says how it is judged:

    * `paired_difference`: by how much is `metric` better in `better_arm` than in `worse_arm`, seed by seed?
    * `event_share`: `metric` is true or false a seed; in which arm does it happen more (or less) often?
    * `time_to_target`: `metric` is a time in hours, not reached in some seeds (those stay in, as censored).
    * `threshold`: does `metric` of `better_arm` stay beyond `threshold`? No second arm.

    The claim is always "better by more than `minimum_difference`": an interval wholly above it supports the
    claim, one wholly below it contradicts the claim, any other does not separate the two.
    """

    id: str
    claim: str
    """One sentence that can turn out to be wrong."""
    source: str
    """Who claims it, with a place to look it up; "ours" for a claim of this study."""
    metric: str
    """Column of the per-seed outcomes (see `analysis.outcomes`)."""
    kind: Kind
    better_arm: str
    worse_arm: str | None = None
    direction: Direction = "higher"
    """Which way `metric` is better: "lower" for times, collapses, idle shares."""
    minimum_difference: float = 0.0
    """Smallest difference worth a claim, in the metric's own unit; never negative."""
    threshold: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("id", "claim", "source", "metric", "better_arm"):
            if not getattr(self, name).strip():
                raise ValueError(f"hypothesis {self.id!r}: {name} is empty")
        if self.kind not in ("paired_difference", "event_share", "time_to_target", "threshold"):
            raise ValueError(f"hypothesis {self.id!r}: unknown kind {self.kind!r}")
        if self.direction not in ("higher", "lower"):
            raise ValueError(
                f"hypothesis {self.id!r}: direction is {self.direction!r}, not 'higher' or 'lower'"
            )
        if not (math.isfinite(self.minimum_difference) and self.minimum_difference >= 0):
            raise ValueError(
                f"hypothesis {self.id!r}: minimum_difference {self.minimum_difference} is not finite and >= 0"
            )
        if not 0 < self.confidence < 1:
            raise ValueError(f"hypothesis {self.id!r}: confidence {self.confidence} is not between 0 and 1")
        self._check_arms()

    def _check_arms(self) -> None:
        if self.kind == "threshold":
            if self.threshold is None or not math.isfinite(self.threshold) or self.worse_arm is not None:
                raise ValueError(f"hypothesis {self.id!r}: a threshold claim has a threshold and one arm")
        elif self.worse_arm is None or self.threshold is not None or self.worse_arm == self.better_arm:
            raise ValueError(
                f"hypothesis {self.id!r}: a {self.kind} claim compares two arms and has no threshold"
            )
        if self.kind == "time_to_target" and self.direction != "lower":
            raise ValueError(f"hypothesis {self.id!r}: a time to target is better when it is lower")
