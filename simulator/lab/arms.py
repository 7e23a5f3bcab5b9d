"""Estimators by the name that a configuration may use. The math never sees these names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from algorithms.estimator import Estimator
from algorithms.grpo import grpo, grpo_behaviour_clip, grpo_dis
from algorithms.sao import sao

ESTIMATORS: Final[Mapping[str, Callable[[], Estimator]]] = {
    "grpo": grpo,
    "grpo_behaviour_clip": grpo_behaviour_clip,
    "grpo_dis": grpo_dis,
    "sao": sao,
}
