"""Systems that bound how far submission may run ahead of training."""

from __future__ import annotations

import math

from simulator.rules.admission import Admission, always, back_pressure, bounded_run_ahead
from simulator.rules.counts import Counts
from simulator.rules.on_sync import abort_and_restart, abort_and_resume, keep
from simulator.rules.selection import oldest_submitted_first
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape, older_than_batches


def areal(
    shape: Shape,  # noqa: ARG001 - every system takes one
    *,
    max_head_offpolicyness: int = 4,
    max_concurrent_rollouts: int | None = None,
) -> Staleness:
    """accepted + running < (eta + v + 1) B; the oldest started is trained first; prefixes are recomputed.

    Args:
        max_head_offpolicyness: eta, in batches.
        max_concurrent_rollouts: besides; None for none.

    References:
        Fu et al., AReaL, 2025. https://arxiv.org/abs/2505.24298.
    """
    gate = bounded_run_ahead(max_head_offpolicyness, max_concurrent_rollouts=max_concurrent_rollouts)
    return Staleness(admission=gate, selection=oldest_submitted_first, on_sync=abort_and_resume())


def skyrl(shape: Shape, *, max_staleness_steps: int = 4) -> Staleness:  # noqa: ARG001
    """AReaL's gate in SkyRL's words: (S + global_step) B, where global_step is the step being *worked on*.

    That step is one more than the version that the engines hold, so S is eta. What is older is trained all
    the same, with a warning; keys and values are kept.

    References:
        SkyRL, fully async trainer. https://github.com/NovaSky-AI/SkyRL.
    """
    return Staleness(admission=bounded_run_ahead(max_staleness_steps), on_sync=keep(pauses_engines=True))


def roll(shape: Shape, *, async_generation_ratio: float = 1.0) -> Staleness:
    """The first step admits ceil(alpha B) + B, each later one B; what began too many steps ago is aborted.

    A step's share of whole numbers aside, alpha = 1 is one batch of run-ahead. Started before
    step - ceil(alpha): aborted and asked again.

    Args:
        async_generation_ratio: alpha, not negative.

    Raises:
        ValueError: alpha is negative or not finite.

    References:
        ROLL, async pipeline. https://github.com/alibaba/ROLL.
    """
    alpha = async_generation_ratio
    if not (math.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"async_generation_ratio must be finite and not negative, got {alpha}")
    ahead = math.ceil(shape.batch_rollouts * alpha)
    too_old = older_than_batches(math.ceil(alpha), shape)

    def admission(counts: Counts) -> int:
        allowed = ahead + (counts.engine_version_batches + 1) * counts.batch_rollouts
        return allowed - counts.submitted_rollouts

    return Staleness(
        admission=admission,
        selection=oldest_submitted_first,
        age_limit=too_old,
        abort=too_old,
        replacement="same_prompt",
        on_sync=abort_and_restart(),
    )


def tinker(shape: Shape, *, max_steps_off_policy: int = 3) -> Staleness:
    """At most k + 1 batches started and not trained; a group more than k steps old is replaced.

    With a full pipeline the usual lag *is* k: https://github.com/thinking-machines-lab/tinker-cookbook/pull/822.
    """
    return Staleness(
        admission=_untrained_at_most((max_steps_off_policy + 1) * shape.batch_rollouts),
        age_limit=older_than_batches(max_steps_off_policy, shape),
    )


def open_instruct(shape: Shape, *, async_steps: int = 4) -> Staleness:
    """`async_steps` batches of prompts in flight; dropped iff training_step - model_step > async_steps.

    *Choice*: training_step counts from 1 and model_step from 0, so data as fresh as can be has a difference
    of one, and the batches in flight at the start are all trained. What is dropped is asked again.

    References:
        open-instruct, GRPO fast. https://github.com/allenai/open-instruct.
    """
    if async_steps < 1:
        raise ValueError(f"async_steps must be at least 1, got {async_steps}")
    return Staleness(
        admission=back_pressure(always, async_steps * shape.batch_rollouts),
        age_limit=older_than_batches(async_steps - 1, shape),
        replacement="same_prompt",
        on_sync=keep(pauses_engines=True),
    )


def pipelinerl(shape: Shape, *, max_lag_samples: int | None = None) -> Staleness:
    """Weights change in flight; at most ceil(max_lag / attempts) groups beyond those of one update.

    Args:
        max_lag_samples: in samples; None, the default there, for no gate.

    Raises:
        ValueError: a negative lag.

    References:
        Piché et al., PipelineRL, 2025. https://arxiv.org/abs/2509.19128.
    """
    if max_lag_samples is None:
        return Staleness(admission=always)
    if max_lag_samples < 0:
        raise ValueError(f"max_lag_samples must be at least 0, got {max_lag_samples}")
    extra = math.ceil(max_lag_samples / shape.group_size) * shape.group_size
    return Staleness(admission=_untrained_at_most(extra + shape.batch_rollouts))


def _untrained_at_most(rollouts: int) -> Admission:
    def admission(counts: Counts) -> int:
        return rollouts - (counts.submitted_rollouts - counts.trained_rollouts)

    return admission
