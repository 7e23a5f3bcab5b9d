"""A line from the trainer's first rank to one engine.

*Choice*: each engine has a group of its own, made for one push. In one group of all, an engine that died
would take the others' push with it, and a group that outlives a push would have to be made anew whenever one
was restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, final

from torch import Tensor
from torch.distributed import ProcessGroupGloo

from full_runs.wire.group import SENDER, announce, broadcast, joined, listening
from full_runs.wire.outline import Outline

ENGINE_PATIENCE: Final = 3
"""An engine waits for a tensor so many times longer than the trainer: while another line is given up, too."""


class Line(Protocol):
    """To one engine."""

    def send(self, tensor: Tensor, /) -> Callable[[], object]:
        """Begin to send it; what is returned waits until it has arrived. Either may raise RuntimeError."""
        ...

    def close(self) -> None:
        """The engine notices."""
        ...


class Opened(NamedTuple):
    """Lines that can be joined now."""

    told: Sequence[Mapping[str, Any]]
    """The body of each engine's `/init_weight_transfer_engine`."""
    joins: Sequence[Callable[[], Line]]
    """Each waits until its engine is there; raises RuntimeError if it does not come."""
    keep: object
    """Held as long as somebody may come."""


Open = Callable[[Sequence[int], str, float, Sequence[Outline]], Opened]
"""(workers of each engine, address to listen on, seconds that one tensor may take, all tensors that will be
sent) -> lines."""


@final
class GlooLine:
    """Over a process group."""

    def __init__(self, group: ProcessGroupGloo) -> None:
        self._group = group

    def send(self, tensor: Tensor) -> Callable[[], object]:
        return broadcast(self._group, tensor).wait

    def close(self) -> None:
        self._group.abort()


def over_gloo(workers: Sequence[int], address: str, timeout_s: float, outlines: Sequence[Outline]) -> Opened:
    """Lines over Gloo, for tensors in a processor's memory; each begins with what will be sent."""
    place = listening(address, timeout_s)

    def told(number: int) -> dict[str, Any]:
        return {
            "address": address,
            "port": place.port,
            "name": f"engine-{number}",
            "size": workers[number] + 1,
        }

    def join(number: int) -> Line:
        group = joined(**told(number), rank=SENDER, timeout_s=timeout_s)
        announce(group, outlines)
        return GlooLine(group)

    return Opened(
        told=[told(number) | {"timeout_s": ENGINE_PATIENCE * timeout_s} for number in range(len(workers))],
        joins=[partial(join, number) for number in range(len(workers))],
        keep=place,
    )
