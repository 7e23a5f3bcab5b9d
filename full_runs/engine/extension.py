"""What an engine's workers do for us, inside the engine's process: take weights, and say what they took.

Given to a server as `--worker-extension-cls full_runs.engine.extension.TakesWeights`. Weights come from a
folder (`take_weights`), or through vLLM's weight transfer, whatever its backend, between `watch_weights` and
`taken_weights`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor

from full_runs.engine.layout import Process, tensors_of
from full_runs.engine.packed import packed
from full_runs.engine.watch import Watch, all_came, compared


class TakesWeights:
    """Mixed into vLLM's worker class, which has the others."""

    reload_weights: Any
    model_runner: Any
    vllm_config: Any
    weight_transfer_engine: Any
    _weight_update_active: bool
    weight_watch: Watch | None
    """Of the last push; not there before the first."""
    weight_update_is_half_done: bool

    def take_weights(self, folder: str) -> dict[str, str]:
        """Replace all weights by those of a folder's safetensors files; the digest of each, by name."""
        watch = self.weight_watch = self._new_watch()
        self.reload_weights(weights_iterator=watch.passing(tensors_of(Path(folder))))
        all_came(self.model_runner.get_model(), watch)
        return watch.digests

    def watch_weights(self) -> None:
        """Look at all that the model is given from now on.

        A transfer that failed left layers half loaded, and vLLM would go on with them: they are ended first.
        """
        model = self.model_runner.get_model()
        if getattr(self, "weight_update_is_half_done", False):
            self._end_update()
        watch = self.weight_watch = self._new_watch()
        given = type(model).load_weights

        def load_weights(weights: Iterable[tuple[str, Tensor]]) -> Any:
            return given(model, watch.passing(weights))

        model.load_weights = load_weights
        self.weight_update_is_half_done = True

    def taken_weights(self) -> dict[str, str]:
        """Look no longer; the digest of each tensor that the model was given, by the checkpoint's names."""
        model = self.model_runner.get_model()
        del model.load_weights
        self.weight_update_is_half_done = False
        assert self.weight_watch is not None
        all_came(model, self.weight_watch)
        return self.weight_watch.digests

    def _end_update(self) -> None:
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        with set_current_vllm_config(self.vllm_config):
            finalize_layerwise_reload(self.model_runner.get_model(), self.vllm_config.model_config)
        self.weight_transfer_engine.reset_weight_update_target()
        self._weight_update_active = False

    def settings(self) -> dict[str, str]:
        """How the engine was started, in so far as a run depends on it."""
        config = self.vllm_config
        transfer = config.weight_transfer_config
        return {
            "logprobs_mode": str(config.model_config.logprobs_mode),
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "tensor_parallel": str(config.parallel_config.tensor_parallel_size),
            "prefix_caching": str(bool(config.cache_config.enable_prefix_caching)),
            "weight_transfer": str(None if transfer is None else transfer.backend),
        }

    def parameters(self) -> dict[str, list[int]]:
        """Shapes of what this worker holds; of a matrix that is packed elsewhere, an empty one."""
        named = self.model_runner.get_model().named_parameters()
        return {name: list(parameter.shape) for name, parameter in named}

    def compared_weights(self) -> tuple[int, list[str]]:
        """How many tensors this worker holds as it took them, and the names of those that it does not."""
        assert self.weight_watch is not None
        same, wrong = compared(self.model_runner.get_model(), self.weight_watch)
        return same, wrong

    def _new_watch(self) -> Watch:
        from vllm.distributed import get_tensor_model_parallel_rank

        own = self.vllm_config
        process = Process(
            rank=get_tensor_model_parallel_rank(),
            size=own.parallel_config.tensor_parallel_size,
            head_size=own.model_config.get_head_size(),
        )
        copies = frozenset(name for name, _, _ in packed(self.model_runner.get_model()))
        return Watch(own.model_config.dtype, process, copies)
