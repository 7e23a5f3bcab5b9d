"""What does the value model know before the first policy update? What the starting policy earns.

Hou et al. call pretraining of the value model essential, and do not say how long it was. Here it is a number
of single rollouts of the starting policy, from none on, each seen in one batch.

A rollout that was cut has no end to learn from: its target is what it earned so far, and what the critic
itself says of the state after the cut, which is never fitted. At gamma = lambda = 1 an error that the critic
makes everywhere comes back in the mean of its targets, times the share that was cut; one that is larger after
the cut comes back larger. Where that reaches one nothing holds the values, rewards along the way add up, and
more data makes a worse critic.

References:
    Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Final

import numpy as np

from simulator.lab.critic import CriticLearner
from simulator.lab.parts import Sampler
from simulator.lab.traffic import Part, Traffic

MUCH_CUT: Final = 0.25
"""*Choice*: share of cut rollouts beyond which bootstrapping on them is warned of."""
FIRST_ID: Final = 3 * 2**28
"""Of the rollouts and prompts that only the critic meets: no training run counts so far."""


def once_each(first: int, count: int) -> Traffic:
    """Single rollouts of version 0, of prompts that nobody else meets."""
    ids = np.arange(first, first + count, dtype=np.int64) + FIRST_ID
    return Traffic(
        version=0,
        index_in_batch=0,
        rollout_ids=ids,
        prompt_ids=ids,
        group_ids=ids,
        length_tokens=[1] * count,
        parts=[(Part(0, 0),)] * count,
    )


def pretrain(
    critic: CriticLearner,
    sampler: Sampler,
    *,
    rollouts: int,
    batch_rollouts: int = 128,
    bootstrap_truncated: bool = True,
) -> None:
    """Fit the critic, in place, to `rollouts` rollouts of version 0, each batch as often as its recipe says.

    *Choices*: the frozen parts, targets, rate and K of learning; afterwards its optimizer and its warm-up
    begin anew.

    Args:
        sampler: holds version 0.
        rollouts: in all; 0 leaves the critic as it is. The last batch may be smaller.
        bootstrap_truncated: *choice*, as the recipe has it; False: a cut rollout earned what it earned,
            and no value follows it.

    Warns:
        UserWarning: more than `MUCH_CUT` of the rollouts were cut, and value followed them.
    """
    recipe, cut = critic.recipe, 0
    bootstraps = recipe.bootstrap_truncated and bootstrap_truncated
    critic.recipe = dataclasses.replace(recipe, bootstrap_truncated=bootstraps)
    for first in range(0, rollouts, batch_rollouts):
        lesson = sampler.sample(once_each(first, min(batch_rollouts, rollouts - first)))
        critic.fit(lesson.kept())
        cut += int(lesson.batch.truncated.sum())
    critic.recipe = recipe
    critic.begin_anew()
    if bootstraps and cut > MUCH_CUT * rollouts:
        warnings.warn(
            f"value_pretraining_bootstrap is True, and {cut} of {rollouts} rollouts were cut: what the critic"
            " says after a cut is never fitted, and goes into what it is fitted to; False leaves it out",
            stacklevel=2,
        )
