"""How does an engine on processors receive weights over the wire? An engine class for vLLM's weight transfer.

vLLM brings receivers for GPUs only. This one does on a CPU what its `nccl` one does on a GPU: tensor after
tensor is received and loaded, layer by layer. vLLM's processes come to know it as they import this module,
where the worker extension is: `--worker-extension-cls full_runs.engine.gloo.TakesWeightsOverGloo`, beside
`--weight-transfer-config '{"backend": "policylag-gloo"}'`. (*Choice*: an entry point for plugins would be
seen by every vLLM of the environment, and only once the project is installed.)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, final

import torch
from torch.distributed import ProcessGroupGloo
from vllm.distributed.weight_transfer import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)

from full_runs.engine.extension import TakesWeights
from full_runs.engine.launch import GLOO
from full_runs.wire.group import announced, broadcast, joined
from full_runs.wire.outline import check_agreed, of_update


@final
@dataclass
class Meeting(WeightTransferInitInfo):  # type: ignore[misc]
    """Where the sender waits, as `full_runs.wire.lines` tells it."""

    address: str
    port: int
    name: str
    size: int
    timeout_s: float


@final
@dataclass
class Coming(WeightTransferUpdateInfo):  # type: ignore[misc]
    """All tensors that come, in their order."""

    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]


@final
class GlooEngine(WeightTransferEngine):  # type: ignore[misc]
    """Receives over a process group that lasts for one push."""

    init_info_cls = Meeting
    update_info_cls = Coming
    _group: ProcessGroupGloo | None = None

    def init_transfer_engine(self, init_info: Meeting) -> None:
        own = self.parallel_config
        self.shutdown()
        self._group = joined(
            init_info.address,
            init_info.port,
            init_info.name,
            rank=1 + own.data_parallel_index * own.world_size + own.rank,
            size=init_info.size,
            timeout_s=init_info.timeout_s,
        )

    def start_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Without the base class's wait for an accelerator."""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: Coming) -> None:
        if self._group is None:
            raise RuntimeError("init_weight_transfer_engine comes first")
        try:
            expected = of_update(asdict(update_info))
            check_agreed(announced(self._group), expected)
            for name, dtype, shape in expected:
                tensor = torch.empty(shape, dtype=getattr(torch, dtype))
                broadcast(self._group, tensor).wait()
                self.model.load_weights([(name, tensor)])
        finally:
            self.shutdown()  # if it failed, the sender notices at once

    def finish_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        if self._group is not None:
            self._group.abort()
            self._group = None


@final
class TakesWeightsOverGloo(TakesWeights):
    """The same as ever; that it is here makes the engine class known."""


BACKEND: Final = GLOO
if BACKEND not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine(BACKEND, GlooEngine)
