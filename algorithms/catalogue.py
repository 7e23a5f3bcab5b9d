"""Every named composition, in one place: what `policylag bias`, `check` and the law suite go through.

A list of functions, not a registry: the math never looks a name up. A composition is known by the name of
the function that makes it, and every one of them can be called without arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from algorithms.decoupled import decoupled_ppo
from algorithms.estimator import Estimator
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.icepop import icepop, kpop
from algorithms.mis import geometric_rs, k3_rs, mis_po, sequence_mis
from algorithms.sao import sao, sao_running_mean
from algorithms.tis import sequence_tis, token_tis

COMPOSITIONS: Final[tuple[Callable[[], Estimator], ...]] = (
    grpo,
    grpo_behaviour_clip,
    grpo_dis,
    sao,
    sao_running_mean,
    token_tis,
    sequence_tis,
    sequence_mis,
    geometric_rs,
    k3_rs,
    mis_po,
    icepop,
    kpop,
    decoupled_ppo,
)


def by_name() -> dict[str, Callable[[], Estimator]]:
    """The compositions by the name of the function that makes each."""
    return {make.__name__: make for make in COMPOSITIONS}
