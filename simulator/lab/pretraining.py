"""What does the value model know before the first policy update? What the starting policy earns.

Hou et al. call pretraining of the value model essential, and do not say how long it was. Here it is a number
of single rollouts of the starting policy, from none on, each seen in one batch.

References:
    Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from simulator.lab.critic import CriticLearner
from simulator.lab.parts import Sampler
from simulator.lab.traffic import Part, Traffic

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


def pretrain(critic: CriticLearner, sampler: Sampler, *, rollouts: int, batch_rollouts: int = 128) -> None:
    """Fit the critic, in place, to `rollouts` rollouts of version 0, each batch as often as its recipe says.

    *Choices*: the frozen parts, targets, rate and K of learning; afterwards its optimizer and its warm-up
    begin anew.

    Args:
        sampler: holds version 0.
        rollouts: in all; 0 leaves the critic as it is. The last batch may be smaller.
    """
    for first in range(0, rollouts, batch_rollouts):
        lesson = sampler.sample(once_each(first, min(batch_rollouts, rollouts - first)))
        critic.fit(lesson.kept())
    critic.begin_anew()
