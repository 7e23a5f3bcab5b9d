"""Optimizer reset: what does an optimizer know right after the engines got new weights?

Nothing, in GLM-5: its moments are averages over gradients of data that the push has made older still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def emptied(state: Mapping[str, Any]) -> dict[str, Any]:
    """The same optimizer without memory: no moments, and a step count that starts again.

    Learning rates and the other options of its parameter groups stay, so a schedule goes on. Load it with::

        optimizer.load_state_dict(emptied(optimizer.state_dict()))

    Adam's next step is then its very first: about the learning rate in every coordinate, however small the
    gradient. Resets after every push make most steps such steps.

    Args:
        state: `Optimizer.state_dict()` of an optimizer that makes its state at the first step (Adam, AdamW,
            SGD, RMSprop). Adagrad makes it when it is built and cannot be emptied so.

    Raises:
        ValueError: no optimizer's state: `state` or `param_groups` is absent.

    References:
        GLM-5, 2026. https://arxiv.org/abs/2602.15763.
    """
    missing = [key for key in ("state", "param_groups") if key not in state]
    if missing:
        raise ValueError(f"an optimizer's state has state and param_groups, got {sorted(state)}")
    return {**state, "state": {}, "param_groups": [dict(group) for group in state["param_groups"]]}
