"""Does the last batch before a push ever come?

A rule may start nothing, or throw everything away, until engines get new weights; they get them only when
the last batch of the push has been trained. Then a run waits, or generates in vain, for ever.
"""

from __future__ import annotations

from simulator.rules.counts import Counts
from simulator.rules.staleness import Staleness
from simulator.rules.systems.shape import Shape


def must_go_on(rule: Staleness, shape: Shape) -> None:
    """Refuse a rule that can never train the last batch of a push, whatever the lengths.

    The case is the most favourable: all batches before it are trained, nothing else was started, all of it
    but one rollout is there, and it began under the weights that the engines hold.

    Raises:
        ValueError: its gate stays closed, its engines stand still, or its age limit takes nothing.
    """
    before, oldest = shape.batches_per_push - 1, shape.updates_per_push - 1
    if rule.colocated and before:
        raise ValueError(
            f"batches_per_push must be 1, got {shape.batches_per_push}: engines that share the trainer's"
            " accelerators start no batch between two pushes"
        )
    if rule.age_limit(oldest):
        raise ValueError(
            f"the age limit takes nothing that is {oldest} updates old, and without new weights nothing is"
            f" fresher at the last update before a push (updates_per_batch {shape.updates_per_batch},"
            f" batches_per_push {shape.batches_per_push})"
        )
    if rule.admission(_one_is_missing(before, shape)) < 1:
        raise ValueError(
            f"its gate does not start the {shape.batches_per_push} batches that the next push needs"
            " (batches_per_push)"
        )


def _one_is_missing(batches: int, shape: Shape) -> Counts:
    trained, there = batches * shape.batch_rollouts, shape.batch_rollouts - 1
    return Counts(
        submitted_rollouts=trained + there,
        running_rollouts=0,
        outstanding_rollouts=there,
        waiting_rollouts=0,
        queued_rollouts=there,
        trained_rollouts=trained,
        submitted_since_publish_rollouts=trained + there,
        outstanding_at_publish_rollouts=0,
        taken_batches=batches,
        engine_version_batches=0,
        trainer_version_batches=batches,
        batch_rollouts=shape.batch_rollouts,
    )
