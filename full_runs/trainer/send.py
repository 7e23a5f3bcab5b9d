"""What does each rank do while weights go to engines? All gather, the first one sends."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from full_runs.trainer.message import put
from full_runs.trainer.ranks import Ranks
from full_runs.trainer.update import Trainer
from full_runs.trainer.weights import outlines, published_weights
from full_runs.wire.lines import Line, Open, over_gloo
from full_runs.wire.nccl import over_nccl
from full_runs.wire.send import Sent, joined_lines, send

LINES: Final[Mapping[str, Open]] = {"cpu": over_gloo, "cuda": over_nccl}
"""By the trainer's device."""


def send_weights(
    trainer: Trainer,
    ranks: Ranks,
    *,
    workers: Sequence[int],
    address: str,
    timeout_s: float,
    opened: Path,
    dtype: torch.dtype,
) -> Sent:
    """Send the policy's weights to engines (collective); what the first rank saw of it.

    Args:
        workers: of each engine.
        address: that the first rank listens on.
        timeout_s: of one tensor, and of joining.
        opened: a file in which the first rank tells each engine where to join.
        dtype: of what is sent, as engines compute.
    """
    lines: dict[int, Line] = {}
    failed: dict[int, str] = {}
    sent: dict[str, str] = {}
    if ranks.rank == 0:
        place = LINES[ranks.device.type](workers, address, timeout_s, outlines(trainer.policy, dtype))
        put(opened, json.dumps(place.told).encode())
        lines, failed = joined_lines(place)
        failed |= send(published_weights(trainer.policy, dtype), lines, sent)
        for line in lines.values():
            line.close()
    else:
        # Not a loop: its variable would keep a tensor until the next one is gathered.
        deque(published_weights(trainer.policy, dtype), maxlen=0)
    return Sent(version=trainer.updates, sent=sent, failed=failed)
