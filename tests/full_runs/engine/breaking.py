"""An engine's worker that fails when it is asked to, half-way through a push: `BreaksOnRequest`."""

from __future__ import annotations

from torch import Tensor

from full_runs.engine.gloo import TakesWeightsOverGloo
from full_runs.engine.watch import Watch

AT = "model.layers.1.self_attn.q_proj.weight"


class BreaksOnRequest(TakesWeightsOverGloo):  # type: ignore[misc]
    """The same, until `break_next`."""

    def break_next(self, times: str) -> None:
        """Fail as a tensor in the middle comes, in each of the next pushes."""
        self.times_to_break = int(times)

    def _new_watch(self) -> Watch:
        watch = super()._new_watch()
        see = watch.see

        def breaking(name: str, tensor: Tensor) -> None:
            if name == AT and getattr(self, "times_to_break", 0):
                self.times_to_break -= 1
                raise RuntimeError(f"{name} cannot be taken")
            see(name, tensor)

        watch.see = breaking  # type: ignore[method-assign]
        return watch
