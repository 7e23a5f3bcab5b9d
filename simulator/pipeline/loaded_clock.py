"""The decode clock of a load-dependent engine: how far is it, and when does it pass a position?

It counts the tokens that every running rollout makes; see `world.decoding` for how long they take. Between
events only four numbers are needed: how many rollouts run, the tokens that they hold, the position, and the
time at which it was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from simulator.pipeline.by_age import ByAge
from simulator.pipeline.clock_record import ClockRecord
from simulator.pipeline.engine import Engine
from simulator.pipeline.occupancy import Occupancy
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import Floats, Ints
from simulator.world.decoding import LoadDependent, decoded_tokens


class LoadedClock(Engine):
    """An engine, as far as its clock goes."""

    __slots__ = (
        "_by_age",
        "_clock",
        "_position",
        "_record_until",
        "_time_s",
        "capacity",
        "fixed_s",
        "kv_tokens",
        "limited",
        "load",
        "per_kv_token_s",
        "per_rollout_s",
        "prefill_s_per_token",
        "prompt_tokens",
    )

    def __init__(
        self,
        index: int,
        table: Rollouts,
        slots: Sequence[Occupancy],
        *,
        load: LoadDependent,
        prompt_tokens: int,
    ) -> None:
        super().__init__(index, table, slots, unit=1.0)
        self.load = load
        self.fixed_s = load.step_fixed_s
        self.per_rollout_s = load.step_s_per_rollout
        self.per_kv_token_s = load.step_s_per_kv_token
        self.prefill_s_per_token = load.prefill_s_per_token
        self.capacity_tokens = float(load.kv_capacity_tokens or inf)
        self.capacity = self.capacity_tokens
        """What is left for rollouts that decode."""
        self.limited = load.kv_capacity_tokens is not None
        self.asks_before_start = self.limited or self.prefill_s_per_token > 0
        self.prompt_tokens = prompt_tokens
        self.kv_tokens = 0.0
        self._position = 0.0
        self._time_s = 0.0
        """When the clock was at `_position`, or will leave it, if a prefill holds it."""
        self._by_age = ByAge(table)  # kept where there is a limit
        self._clock = ClockRecord()
        self._record_until = -1.0

    def set_pace(self, factor: float, now_s: float) -> None:
        """Everything takes `factor` times as long from now on; `plan` must follow."""
        self._settle(now_s)
        self.fixed_s = factor * self.load.step_fixed_s
        self.per_rollout_s = factor * self.load.step_s_per_rollout
        self.per_kv_token_s = factor * self.load.step_s_per_kv_token
        self.prefill_s_per_token = factor * self.load.prefill_s_per_token

    def position(self, now_s: float) -> float:
        self._settle(now_s)
        return self._position

    def moments(self, publishes: Ints, positions: Floats, /) -> Floats:
        return self._clock.moments(publishes, positions)

    def moment(self, publish: int, position: float, /) -> float:
        return self._clock.moment(publish, position)

    def publish(self, version: int, now_s: float) -> None:
        super().publish(version, now_s)
        self._clock.publish()
        self._record_until = self._position + 1.0

    def _settle(self, now_s: float) -> None:
        """Bring position and tokens held to this moment."""
        if now_s <= self._time_s or self.paused:
            return
        tokens = self._tokens_until(now_s)
        self._position += tokens
        self.kv_tokens += self.running * tokens
        self._time_s = now_s

    def _tokens_until(self, now_s: float) -> float:
        """That each running rollout makes between `_time_s` and `now_s`, if nothing changes."""
        running = self.running
        if now_s <= self._time_s or self.paused or not running:
            return 0.0
        step_s = self.fixed_s + self.per_rollout_s * running + self.per_kv_token_s * self.kv_tokens
        return decoded_tokens(now_s - self._time_s, step_s, self.per_kv_token_s * running)

    def _stop(self, now_s: float) -> None:
        self._settle(now_s)

    def _go_on(self, now_s: float, paused_s: float) -> None:  # noqa: ARG002
        self._time_s = now_s + max(0.0, self._time_s - self._paused_s)
