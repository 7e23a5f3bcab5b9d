"""What does the value model know before the first policy update? What the starting policy earns.

SAO's paper calls this essential and gives no size; VC-PPO and VAPO do it too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from simulator.lab.critic import CriticLearner
from simulator.lab.parts import Sampler
from simulator.lab.traffic import Part, Traffic

FIRST_ID: Final = 2**40
"""Of the rollouts and prompts that only the critic meets: no training run counts so far."""


def pretrain(critic: CriticLearner, sampler: Sampler, *, rollouts: int, rollouts_per_update: int) -> None:
    """Fit the critic to `rollouts` single rollouts of version 0, each batch as often as its recipe says.

    Its warm-up counts these fits too. The last batch may be smaller.

    Args:
        critic: moves in place.
        sampler: holds version 0.
        rollouts: in all; 0 leaves the critic as it is.
        rollouts_per_update: of one batch.
    """
    for start in range(0, rollouts, rollouts_per_update):
        ids = np.arange(start, min(start + rollouts_per_update, rollouts), dtype=np.int64) + FIRST_ID
        ones = [1] * len(ids)
        traffic = Traffic(
            version=0,
            index_in_batch=0,
            rollout_ids=ids,
            prompt_ids=ids,
            group_ids=ids,
            length_tokens=ones,
            parts=[(Part(0, 0),)] * len(ids),
        )
        critic.fit(sampler.sample(traffic))
