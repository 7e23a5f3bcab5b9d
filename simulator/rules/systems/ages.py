"""Systems that start freely and drop by age what is too old to train on."""

from __future__ import annotations

from simulator.rules.admission import always, back_pressure
from simulator.rules.counts import Counts
from simulator.rules.eviction import drop_by_age, keep_all
from simulator.rules.on_sync import keep
from simulator.rules.staleness import Replacement, Staleness
from simulator.rules.systems.shape import Shape, older_than_pushes


def prime_rl(shape: Shape, *, max_off_policy_steps: int = 8) -> Staleness:  # noqa: ARG001 - all take one
    """Dropped iff (step - 1) - oldest version > max; groups under way are cancelled by the same rule.

    A step is an optimizer update and is counted from 1, so (step - 1) is the version that trains: the
    difference is the lag. How many rollouts run adapts there to the engines; here it is the slots.

    References:
        prime-rl, `max_off_policy_steps`. https://github.com/PrimeIntellect-ai/prime-rl.
    """
    too_old = drop_by_age(max_off_policy_steps)
    return Staleness(admission=always, age_limit=too_old, abort=too_old, on_sync=keep(pauses_engines=True))


def miles(
    shape: Shape,
    *,
    max_weight_staleness: int | None = None,
    buffer_factor: float = 2.0,
    replacement: Replacement = "new_prompt",
) -> Staleness:
    """A full buffer blocks the producers; at the take, what is too many engine versions old is dropped.

    A blocked producer holds its slot: as many may be started and not taken as there are slots and places.

    Args:
        max_weight_staleness: in pushes; None, for no limit.
        buffer_factor: places, in batches.
        replacement: a dropped prompt is let go, or tried again.

    References:
        miles, fully async example. https://github.com/radixark/miles.
    """
    places = shape.slots + int(buffer_factor * shape.batch_rollouts)
    limit = keep_all if max_weight_staleness is None else older_than_pushes(max_weight_staleness, shape)
    return Staleness(admission=back_pressure(always, places), age_limit=limit, replacement=replacement)


def trl(shape: Shape, *, max_staleness: int = 4) -> Staleness:
    """Dropped iff model_version - sample_version > max_staleness, in pushes, when it is taken.

    At most max_staleness batches run at once. A sample has one version: *choice*, that of its first token.

    References:
        TRL, AsyncGRPOTrainer. https://github.com/huggingface/trl.
    """
    if max_staleness < 1:
        raise ValueError(f"max_staleness must be at least 1, got {max_staleness}")
    most = max_staleness * shape.batch_rollouts

    def admission(counts: Counts) -> int:
        return most - counts.running_rollouts

    return Staleness(admission=admission, age_limit=older_than_pushes(max_staleness, shape))


def glm5(shape: Shape, *, max_age_pushes: int = 4) -> Staleness:
    """Training begins when enough is finished; dropped iff the trainer's version - its oldest > tau.

    Versions are pushes, one every K updates (`Shape.updates_per_push`). The optimizer is reset after each.

    Args:
        max_age_pushes: *choice*: tau, which is not published.

    References:
        GLM-5 Team, 2026. https://arxiv.org/abs/2602.15763.
    """
    return Staleness(admission=always, age_limit=older_than_pushes(max_age_pushes, shape))


def sao(shape: Shape, *, max_lag_updates: int | None = None) -> Staleness:
    """One rollout a prompt, trainable when it ends; a batch is the first 128 that have.

    Args:
        max_lag_updates: *choice*, None: the paper names neither a bound nor a push interval.

    Raises:
        ValueError: groups of more than one.

    References:
        Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
    """
    if shape.group_size != 1:
        raise ValueError(f"group_size must be 1, got {shape.group_size}: SAO takes one rollout a prompt")
    limit = keep_all if max_lag_updates is None else drop_by_age(max_lag_updates)
    return Staleness(admission=always, age_limit=limit)
