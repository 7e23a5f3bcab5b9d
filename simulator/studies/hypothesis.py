"""What is claimed, before the runs are looked at? One frozen record a claim; `analysis.verdicts` judges it.

Pure data, so that a study can be written down, hashed and stored in its `config.json` (through
`dataclasses.asdict`) before the first run starts, and read back with `Hypothesis(**stored)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, final, get_args

Kind = Literal["paired_difference", "event_share", "time_to_target", "threshold", "fitted"]
Direction = Literal["higher", "lower"]

FITTED: Final = (
    "boundary_exponent",
    "collapse_time_learning_rate",
    "collapse_time_lag",
    "drift_exponent_k1",
    "drift_exponent_k3",
    "alarm_lead_updates",
    "alarm_false_share",
    "alarm_missed_share",
)
"""Quantities that are fitted to many runs at once, by name; `analysis.fits.every` says what each is."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """One claim about one per-seed outcome of one or two arms, or about a quantity fitted to many arms.

    `kind` says how it is judged:

    * `paired_difference`: by how much is `metric` better in `better_arm` than in `worse_arm`, seed by seed?
    * `event_share`: `metric` is true or false a seed; in which arm does it happen more (or less) often?
    * `time_to_target`: `metric` is a time in hours, not reached in some seeds (those stay in, as censored).
    * `threshold`: does `metric` of `better_arm` stay beyond `threshold`? No second arm.
    * `fitted`: does the quantity `metric`, one of `FITTED`, lie `between` two values? It is fitted to the
      runs of `arms`, or of all arms.

    The claim of the first four is always "better by more than `minimum_difference`": an interval wholly above
    it supports the claim, one wholly below it contradicts the claim, any other does not separate the two. The
    last is supported by an interval wholly inside `between`, and contradicted by one wholly outside.
    """

    id: str
    claim: str
    """One sentence that can turn out to be wrong."""
    source: str
    """Who claims it, with a place to look it up; "ours" for a claim of this study."""
    metric: str
    """Column of the per-seed outcomes (see `analysis.measures.outcomes`)."""
    kind: Kind
    better_arm: str | None = None
    worse_arm: str | None = None
    direction: Direction = "higher"
    """Which way `metric` is better: "lower" for times, collapses, idle shares."""
    minimum_difference: float = 0.0
    """Smallest difference worth a claim, in the metric's own unit; never negative."""
    threshold: float | None = None
    between: tuple[float, float] | None = None
    """Lowest and highest value that a fitted quantity is claimed to have."""
    arms: tuple[str, ...] = ()
    """Of a fitted quantity: the arms whose runs it is fitted to; all of them if empty."""
    confidence: float = 0.95

    def __post_init__(self) -> None:
        # JSON knows no tuples: what was stored as one comes back as a list.
        object.__setattr__(self, "arms", tuple(self.arms))
        if self.between is not None:
            object.__setattr__(self, "between", tuple(self.between))
        for name in ("id", "claim", "source", "metric"):
            if not getattr(self, name).strip():
                raise ValueError(f"hypothesis {self.id!r}: {name} is empty")
        if self.kind not in get_args(Kind):
            raise ValueError(f"hypothesis {self.id!r}: unknown kind {self.kind!r}")
        if self.direction not in get_args(Direction):
            raise ValueError(
                f"hypothesis {self.id!r}: direction is {self.direction!r}, not 'higher' or 'lower'"
            )
        if not (math.isfinite(self.minimum_difference) and self.minimum_difference >= 0):
            raise ValueError(
                f"hypothesis {self.id!r}: minimum_difference {self.minimum_difference} is not finite and >= 0"
            )
        if not 0 < self.confidence < 1:
            raise ValueError(f"hypothesis {self.id!r}: confidence {self.confidence} is not between 0 and 1")
        if self.kind == "fitted":
            self._check_fitted()
        else:
            self._check_arms()

    def _check_arms(self) -> None:
        if not (self.better_arm or "").strip():
            raise ValueError(f"hypothesis {self.id!r}: better_arm is empty")
        if self.between is not None or self.arms:
            raise ValueError(f"hypothesis {self.id!r}: only a fitted claim has `between` and `arms`")
        if self.kind == "threshold":
            if self.threshold is None or not math.isfinite(self.threshold) or self.worse_arm is not None:
                raise ValueError(f"hypothesis {self.id!r}: a threshold claim has a threshold and one arm")
        elif self.worse_arm is None or self.threshold is not None or self.worse_arm == self.better_arm:
            raise ValueError(
                f"hypothesis {self.id!r}: a {self.kind} claim compares two arms and has no threshold"
            )
        if self.kind == "time_to_target" and self.direction != "lower":
            raise ValueError(f"hypothesis {self.id!r}: a time to target is better when it is lower")

    def _check_fitted(self) -> None:
        if self.metric not in FITTED:
            raise ValueError(
                f"hypothesis {self.id!r}: {self.metric!r} is not fitted; fitted are {', '.join(FITTED)}"
            )
        bounds = self.between or ()
        if len(bounds) != 2 or not all(map(math.isfinite, bounds)) or not bounds[0] < bounds[1]:
            raise ValueError(
                f"hypothesis {self.id!r}: between {self.between} is not a lower and a higher value"
            )
        if self.better_arm or self.worse_arm or self.threshold is not None or self.minimum_difference:
            raise ValueError(
                f"hypothesis {self.id!r}: a fitted claim has `between` and `arms`, and no arm is better"
            )
        if len(set(self.arms)) < len(self.arms):
            raise ValueError(f"hypothesis {self.id!r}: arms {self.arms} name one twice")
