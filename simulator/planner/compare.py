"""What does the group barrier cost, and what does the critic that replaces it?

At equal machines and equal batches: groups that wait for their slowest; single rollouts; single rollouts with
SAO's critic on the trainer. Nothing bounds the run-ahead but a queue of one batch that drops its oldest
(*choice*: under a bound the lag is the bound, and the barrier hides in idleness). What an update is worth is
another question: groups buy their baseline with rollouts, SAO with critic updates.

References:
    Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from simulator import theory
from simulator.config import length_law
from simulator.planner.config import PlanConfig
from simulator.planner.layout import Setting, free
from simulator.planner.measure import Numbers
from simulator.planner.plan import possible, simulate

ArmName: TypeAlias = Literal["group", "single", "single + critic"]
SAO_CRITIC_UPDATES: Final = 2
"""K in the paper."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to train, at one split."""

    name: ArmName
    setting: Setting
    numbers: Numbers
    hours: float
    """For the updates asked for."""
    gpu_hours: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Arms, each at its own fastest split, and all at the groups' split."""

    group_size: int
    updates: int
    machines: int
    in_flight: int
    fastest: tuple[Arm, ...]
    same_split: tuple[Arm, ...]
    """At the split where groups are fastest; empty for an arm whose trainer does not fit there."""
    tail_ratio: float
    """E[longest of a group] / E[one] by order statistics, before any queue."""

    @property
    def lag_multiplier(self) -> float:
        """Mean lag of groups over that of single rollouts, without a critic, at the same split."""
        lags = {arm.name: arm.numbers["mean_lag_updates"].mean for arm in self.same_split}
        return lags["group"] / lags["single"] if lags["single"] > 0 else float("inf")


def compare(
    config: PlanConfig, *, updates: int, jobs: int = 1, advance: Callable[[], None] = lambda: None
) -> Comparison:
    """Group against single, over the splits of the plan, with its largest number in flight.

    Args:
        updates: whose hours are asked for.
        advance: called after each simulation; there are `simulations(config)`.

    Errors:
        ValueError: groups of one, or no split on which an arm is possible.
    """
    if config.group_size == 1:
        raise ValueError("group_size is 1: there is no barrier to compare with")
    found: dict[ArmName, list[Arm]] = {}
    for name, arm in arms(config).items():
        settings = _splits(arm)
        numbers = simulate(arm, settings, jobs=jobs, advance=advance)
        pairs = zip(settings, numbers, strict=True)
        found[name] = [_arm(name, config, setting, of, updates) for setting, of in pairs]
    fastest = {name: min(candidates, key=lambda arm: arm.hours) for name, candidates in found.items()}
    split = fastest["group"].setting
    return Comparison(
        group_size=config.group_size,
        updates=updates,
        machines=config.machines,
        in_flight=max(config.in_flight),
        fastest=tuple(fastest.values()),
        same_split=tuple(arm for every in found.values() for arm in every if arm.setting == split),
        tail_ratio=theory.tail_ratio(config.group_size, length_law(config.lengths).quantile),
    )


def simulations(config: PlanConfig) -> int:
    """How many a comparison takes."""
    return sum(len(_splits(arm)) * config.seeds for arm in arms(config).values())


def arms(config: PlanConfig) -> dict[ArmName, PlanConfig]:
    """Each arm as a question of its own.

    SAO asks for no log-probs besides those of its engines, and for K critic updates and a pass for values.
    """
    sao = {"critic_updates": config.critic_updates or SAO_CRITIC_UPDATES, "log_prob_passes": 0}
    return {
        "group": config.model_copy(update={"critic_updates": 0}),
        "single": config.model_copy(update={"critic_updates": 0, "group_size": 1}),
        "single + critic": config.model_copy(update={"group_size": 1} | sao),
    }


def _splits(arm: PlanConfig) -> Sequence[Setting]:
    can, _ = possible(arm, free(arm))
    return can


def _arm(name: ArmName, config: PlanConfig, setting: Setting, numbers: Numbers, updates: int) -> Arm:
    hours = updates / numbers["updates_per_hour"].mean
    return Arm(name=name, setting=setting, numbers=numbers, hours=hours, gpu_hours=hours * config.machines)
