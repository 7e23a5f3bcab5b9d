"""Which GPU of which node is whose?

The trainer's ranks have the first GPUs of its nodes, equally many on each. Every engine follows on the first
node that still has room for all of its GPUs, since tensor parallelism over a network is slow (*choice*: it is
never done here). One GPU alone is shared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

Gpu: TypeAlias = tuple[int, int]
"""Node, and number there."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """All GPUs of a run."""

    ranks: tuple[Gpu, ...]
    engines: tuple[tuple[Gpu, ...], ...]

    def of_trainer(self, node: int) -> tuple[int, ...]:
        """Numbers of the GPUs that train on a node."""
        return tuple(number for where, number in self.ranks if where == node)

    def elsewhere(self) -> tuple[int, ...]:
        """Engines that are not on the first node, where the controller is."""
        return tuple(place for place, gpus in enumerate(self.engines) if gpus[0][0])


def placed(
    ranks: int, engines: int, *, trainer_nodes: int, tensor_parallel: int, gpus_per_node: int, shared: bool
) -> Placement:
    """Of a trainer and of engines.

    Args:
        ranks: a GPU each; a multiple of `trainer_nodes`.
        engines: `tensor_parallel` GPUs each.
        shared: the engine is on the one rank's own GPU.

    Raises:
        ValueError: an engine finds no room on any of as many nodes as the GPUs make.
    """
    a_node = ranks // trainer_nodes
    of_ranks = tuple((node, number) for node in range(trainer_nodes) for number in range(a_node))
    if shared:
        return Placement(ranks=of_ranks, engines=(of_ranks,))
    nodes = max(trainer_nodes, math.ceil((ranks + engines * tensor_parallel) / gpus_per_node))
    used = [a_node] * trainer_nodes + [0] * (nodes - trainer_nodes)
    of_engines = []
    for place in range(engines):
        roomy = (node for node in range(nodes) if used[node] + tensor_parallel <= gpus_per_node)
        if (node := next(roomy, None)) is None:
            raise ValueError(
                f"engine {place} of engines ({engines}) finds no {tensor_parallel} GPUs (tensor_parallel)"
                f" together on one of {nodes} nodes of {gpus_per_node} (gpus_per_node)"
            )
        of_engines.append(tuple((node, used[node] + number) for number in range(tensor_parallel)))
        used[node] += tensor_parallel
    return Placement(ranks=of_ranks, engines=tuple(of_engines))


def visible(numbers: Sequence[int], known: str | None) -> str:
    """What CUDA_VISIBLE_DEVICES is to be for a process that gets these GPUs.

    Args:
        numbers: among the GPUs that this process may use.
        known: what the variable is here; None if all GPUs are seen.

    Raises:
        ValueError: fewer are seen here.
    """
    if known is None:
        return ",".join(map(str, numbers))
    names = [name.strip() for name in known.split(",") if name.strip()]
    if max(numbers) >= len(names):
        raise ValueError(f"CUDA_VISIBLE_DEVICES is {known!r}, and GPU {max(numbers)} of it is wanted")
    return ",".join(names[number] for number in numbers)
