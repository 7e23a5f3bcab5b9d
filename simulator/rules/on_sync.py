"""When may new weights reach the engines, and what becomes of the rollouts that run then?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from simulator.rules.counts import Counts

MayPublish: TypeAlias = Callable[[Counts], bool]

Running: TypeAlias = Literal["keep", "recompute", "restart", "drain"]
Engines: TypeAlias = Literal["together", "rolling", "when_idle"]


def in_flight(counts: Counts) -> bool:  # noqa: ARG001 - a rule takes the counts, this one ignores them
    """At once, whatever is running."""
    return True


def after_the_batch(counts: Counts) -> bool:
    """When the whole batch after the one in training is generated, and nothing runs."""
    batch_is_started = counts.submitted_rollouts >= (counts.taken_batches + 1) * counts.batch_rollouts
    return batch_is_started and counts.running_rollouts == 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OnSync:
    """What a push does to engines and to what they are decoding."""

    running: Running = "keep"
    """Rollouts under way: go on with their keys and values; go on after their whole prefix has been
    computed again; start again from the bare prompt; or the push waits until none is left, and none starts
    meanwhile."""
    engines: Engines = "together"
    """All at once; one after another; or each when its own last rollout has ended, nobody waiting for it."""
    pauses_engines: bool = False
    """Whether an engine stands still while weights are copied into it; if not, it swaps them between two
    steps."""

    @property
    def one_version_a_rollout(self) -> bool:
        """Does every rollout keep the weights that it began with?"""
        return self.running in ("restart", "drain") or self.engines == "when_idle"


SWAP: Final = OnSync()
"""Weights change under the rollouts between two steps, and nothing stands still."""


def keep(*, pauses_engines: bool = False) -> OnSync:
    """Weights are swapped under the rollouts; keys and values stay, those of older weights too.

    What is sampled then follows neither policy exactly; the recorded log-probs are still the behaviour's.
    """
    return OnSync(pauses_engines=pauses_engines)


def abort_and_resume() -> OnSync:
    """Interrupt, load, and prefill each prefix again under the new weights: AReaL, verl's partial rollout."""
    return OnSync(running="recompute", pauses_engines=True)


def abort_and_restart() -> OnSync:
    """Interrupt and begin again from the prompt: a rollout longer than the sync interval never ends."""
    return OnSync(running="restart", pauses_engines=True)


def drain() -> OnSync:
    """Let what runs come to its end, start nothing, then load."""
    return OnSync(running="drain", pauses_engines=True)


def rolling() -> OnSync:
    """One engine after another stands still and loads; the others decode on under what they hold."""
    return OnSync(engines="rolling", pauses_engines=True)


def pull_when_idle() -> OnSync:
    """An engine that has run empty takes the newest weights; the trainer waits for none: Laminar."""
    return OnSync(engines="when_idle", pauses_engines=True)
