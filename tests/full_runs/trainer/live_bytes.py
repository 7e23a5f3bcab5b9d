"""How many bytes are alive at once of what operations make, on this process, below FSDP's own tensors?"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts while it is entered; what was there before does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # it comes again, as what it does to this rank's parts
        before = {self._key(each) for each in tree_leaves((args, kwargs)) if self._counts(each)}
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if self._counts(tensor) and self._key(tensor) not in before | self._known:
                self._add(tensor)
        return made

    @staticmethod
    def _counts(each: object) -> bool:
        return type(each) is Tensor and each.device.type == "cpu"

    @staticmethod
    def _key(tensor: Tensor) -> int:
        return tensor.untyped_storage()._cdata

    def _add(self, tensor: Tensor) -> None:
        storage, key = tensor.untyped_storage(), self._key(tensor)
        size = storage.nbytes()
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)

        def gone() -> None:
            self._known.discard(key)
            self.now -= size

        weakref.finalize(storage, gone)
