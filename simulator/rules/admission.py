"""How many more rollouts may start now?

A rule answers with a number of rollouts, which may be negative: that many too many are under way. Only
starts may lower an answer (completions, takes, drops and publishes raise it), so that one answer can be
used up before the rule is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from simulator.rules.counts import Counts

Admission: TypeAlias = Callable[[Counts], int]

UNLIMITED: Final = 2**62


def synchronous(counts: Counts) -> int:
    """The next batch may start when the engines hold the weights that the last one made.

    With `updates_per_batch` updates a batch, update j of a batch still meets data j updates old.
    """
    return bounded_run_ahead(0)(counts)


def next_batch_while_training(counts: Counts) -> int:
    """One batch is generated while the one before it trains.

    Alone it makes rollouts *at most* one batch old; with `on_sync.after_the_batch` they are exactly one
    batch old, as in verl's one-step-off recipe.

    References:
        https://verl.readthedocs.io/en/latest/advance/one_step_off.html
    """
    return (counts.taken_batches + 1) * counts.batch_rollouts - counts.submitted_rollouts


def bounded_run_ahead(eta_batches: int, *, max_concurrent_rollouts: int | None = None) -> Admission:
    r"""AReaL's gate: generation may run at most `eta_batches` ahead of the weights.

    .. math:: \min\{(\eta + v + 1) B - (\text{accepted} + \text{running}),\; C - \text{running}\}

    It bounds the *sum*: the mean lag is eta batches once the gate binds, but one long rollout may be
    passed by any number of batches, so no rollout's lag is bounded.

    Args:
        eta_batches: AReaL's `max_head_offpolicyness`, at least 0.
        max_concurrent_rollouts: C, at least 1; None for no limit.

    References:
        Fu et al., AReaL, 2025, equation 3. https://arxiv.org/abs/2505.24298
    """
    if eta_batches < 0:
        raise ValueError(f"eta_batches must be at least 0, got {eta_batches}")
    if max_concurrent_rollouts is not None and max_concurrent_rollouts < 1:
        raise ValueError(f"max_concurrent_rollouts must be at least 1, got {max_concurrent_rollouts}")
    concurrent = UNLIMITED if max_concurrent_rollouts is None else max_concurrent_rollouts

    def admission(counts: Counts) -> int:
        ahead = (eta_batches + counts.engine_version_batches + 1) * counts.batch_rollouts
        return min(ahead - counts.submitted_rollouts, concurrent - counts.running_rollouts)

    return admission


def always(counts: Counts) -> int:  # noqa: ARG001 - a rule takes the counts, this one ignores them
    """No gate: a free slot starts a rollout."""
    return UNLIMITED


def back_pressure(admission: Admission, max_outstanding_rollouts: int) -> Admission:
    """`admission`, with at most `max_outstanding_rollouts` started and not yet taken by the trainer."""

    def capped(counts: Counts) -> int:
        return min(admission(counts), max_outstanding_rollouts - counts.outstanding_rollouts)

    return capped
