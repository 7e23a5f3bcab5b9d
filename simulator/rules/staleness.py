"""The staleness rules by name: each a sentence of three decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from simulator.rules import admission, eviction, on_sync, selection

Replacement: TypeAlias = Literal["new_prompt", "same_prompt"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """How old may data be? Functions, so that a rule of one's own needs no registry."""

    admission: admission.Admission
    """How many rollouts may start now?"""
    selection: selection.Selection = selection.fifo
    """Which complete groups make the next batch?"""
    age_limit: eviction.AgeLimit = eviction.keep_all
    """Is a complete group too old to be trained?"""
    abort: eviction.AgeLimit = eviction.keep_all
    """Is an unfinished group too old to go on? Asked at every publish."""
    replacement: Replacement = "new_prompt"
    """What takes the place of a group that was dropped or aborted for its age."""
    overflow: eviction.Overflow = eviction.never_overflows
    may_publish: on_sync.MayPublish = on_sync.in_flight
    on_sync: on_sync.OnSync = on_sync.SWAP
    colocated: bool = False
    """Engines and trainer share their accelerators: from the moment when a batch is taken until the new
    weights are there, nothing decodes."""


def sync() -> Staleness:
    """Generate, train, push; nothing overlaps."""
    return Staleness(admission=admission.synchronous)


def one_step_off() -> Staleness:
    """Generate the next batch while this one trains, swap weights between batches: lag one batch, exactly."""
    return Staleness(admission=admission.next_batch_while_training, may_publish=on_sync.after_the_batch)


def bounded_lag(eta_batches: int, *, max_concurrent_rollouts: int | None = None) -> Staleness:
    """AReaL: start no more than `eta_batches` ahead of the weights; train on all of it."""
    gate = admission.bounded_run_ahead(eta_batches, max_concurrent_rollouts=max_concurrent_rollouts)
    return Staleness(admission=gate)


def drop_by_age(max_lag_updates: int) -> Staleness:
    """prime-rl, miles: start freely, throw away at consumption what is too old."""
    return Staleness(admission=admission.always, age_limit=eviction.drop_by_age(max_lag_updates))


def unbounded() -> Staleness:
    """Start freely, train on everything."""
    return Staleness(admission=admission.always)
