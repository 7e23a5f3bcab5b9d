"""What a rule may look at, by hand."""

import dataclasses

from simulator.rules.counts import Counts


def counts(*, submitted=0, running=0, outstanding=0, taken=0, version=0, batch=4, **others) -> Counts:
    """Nothing has happened yet, but for what is said; the trainer's version is the engines'."""
    named = {
        "submitted_rollouts": submitted,
        "running_rollouts": running,
        "outstanding_rollouts": outstanding,
        "taken_batches": taken,
        "engine_version_batches": version,
        "trainer_version_batches": version,
        "batch_rollouts": batch,
    }
    nothing = {field.name: 0 for field in dataclasses.fields(Counts)}
    return Counts(**(nothing | named | others))
