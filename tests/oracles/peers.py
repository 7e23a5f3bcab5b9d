"""Other libraries, and what of a batch they read."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import warnings
from typing import Any

import pytest
import torch

from algorithms.rollout import Batch
from tests.laws.compositions import random_batch


def peer(module: str) -> Any:
    """A module of a library that only `make oracles` installs; elsewhere the tests of it are skipped."""
    library = module.partition(".")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed here: make oracles", allow_module_level=True)
    with warnings.catch_warnings():
        # What they and their dependencies deprecate is theirs to mend.
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


def paired(seed: int, *, mismatch: float = 0.5, empty_row: bool = False) -> Batch:
    """Ragged rollouts in groups of at least two, old and behaviour policy `mismatch` nats apart.

    Their sums run over padding, so rewards are zero there; NaN they do not survive.
    """
    batch = random_batch(seed)
    g = torch.Generator().manual_seed(100 + seed)
    mask = batch.action_mask.clone()
    if empty_row:
        mask[3] = False
    step = torch.randn(mask.shape, generator=g, dtype=torch.float64)
    return dataclasses.replace(
        batch,
        action_mask=mask,
        rewards=batch.rewards.where(mask, 0.0),
        old_log_probs=(batch.behaviour_log_probs + mismatch * step).clamp(max=-1e-3),
        group_ids=torch.tensor([4, 9, 4, 9, 9, 4, 4]),
    )
