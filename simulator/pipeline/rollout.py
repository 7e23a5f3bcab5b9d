"""What moves through the pipeline: a table of columns, a row an attempt.

An attempt that was aborted keeps its row, with the tokens that it made; its prompt may start again in a new
one. So every token that was ever made is in exactly one row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from math import isnan, nan
from typing import Final, NamedTuple, Protocol, final

from simulator.pipeline.course import Course
from simulator.pipeline.weights import Floats, Ints, Segment, Weights, cut_at_publishes

_AHEAD: Final = 1024
_NOT_YET: Final = array("d", [nan]) * _AHEAD
_NOTHING: Final = array("i", [0]) * _AHEAD


class Clock(Protocol):
    """What the table asks of an engine: see `engine`."""

    weights: Weights
    unit: float

    def moments(self, publishes: Ints, positions: Floats, /) -> Floats:
        """Seconds at which the decode clock passed `positions`, each within a token after its publish."""

    def moment(self, publish: int, position: float, /) -> float:
        """`moments` of one."""


class Stint(NamedTuple):
    """Tokens that a rollout made without interruption. Most rollouts have one stint."""

    rollout_id: int
    engine: int
    start_s: float
    end_s: float
    position: float
    """Of the engine's decode clock, as the stint began."""
    start_token: int
    tokens: int
    before: int
    """Index of the engine's latest publish as the stint began."""
    after: int
    """And as it ended."""


@final
class Rollouts:
    """Columns by rollout_id, in order of starting; written by the pipeline, read by everyone."""

    __slots__ = (
        "after",
        "before",
        "clocks",
        "courses",
        "engine",
        "entered_s",
        "finished_s",
        "group_size",
        "made_before",
        "observed_tokens",
        "place",
        "position",
        "ready_s",
        "resumed_s",
        "started_s",
        "stints",
        "tokens",
    )

    def __init__(self, group_size: int, clocks: Sequence[Clock] = ()) -> None:
        self.group_size = group_size
        self.clocks = clocks
        self.place = array("q")
        """prompt_id * group_size + member."""
        self.tokens = array("q")
        """Its whole length, decided when it starts; of an aborted one, what it had made."""
        self.engine = array("i")  # 4 bytes a rollout, where they do: a run may have millions
        self.started_s = array("d")
        self.finished_s = array("d")
        """NaN until then, and for ever if it was aborted. It and `after` grow ahead of the others."""
        self.position = array("d")
        self.before = array("i")
        self.after = array("i")
        """These three of its present stint: see `Stint`."""
        self.stints: dict[int, list[Stint]] = {}
        """Those that were cut short, of the few rollouts that have any."""
        self.made_before: dict[int, int] = {}
        """Tokens made before the present stint."""
        self.observed_tokens: dict[int, int] = {}
        """Tokens that environments have returned so far, of rollouts with turns."""
        self.courses: dict[int, Course] = {}
        """Of every rollout, if rollouts have environments."""
        self.entered_s: dict[int, float] = {}
        """When it was queued, if there was no room for it as its group was complete."""
        self.ready_s: dict[int, float] = {}
        """When its group was padded."""
        self.resumed_s: dict[int, float] = {}
        """When the present stint began, if it is not the first."""

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, place: int, tokens: int, engine: int, now_s: float, publish: int) -> int:
        """A rollout starts; returns its id. The caller adds its position."""
        rollout_id = len(self.tokens)
        if rollout_id == len(self.finished_s):
            self.finished_s.extend(_NOT_YET)
            self.after.extend(_NOTHING)
        self.place.append(place)
        self.tokens.append(tokens)
        self.engine.append(engine)
        self.started_s.append(now_s)
        self.before.append(publish)
        return rollout_id

    def interrupt(self, rollout_id: int, tokens: int, now_s: float, publish: int) -> None:
        """Its stint ends, `tokens` long."""
        start_token = self.made_before.get(rollout_id, 0)
        stint = Stint(
            rollout_id,
            self.engine[rollout_id],
            self.resumed_s.get(rollout_id, self.started_s[rollout_id]),
            now_s,
            self.position[rollout_id],
            start_token,
            tokens,
            self.before[rollout_id],
            publish,
        )
        self.stints.setdefault(rollout_id, []).append(stint)
        self.made_before[rollout_id] = start_token + tokens

    def resume(self, rollout_id: int, now_s: float, publish: int) -> None:
        """Its next stint begins. The caller changes its position."""
        self.resumed_s[rollout_id] = now_s
        self.before[rollout_id] = publish

    def held_tokens(self, rollout_id: int, prompt_tokens: int, position: float) -> float:
        """Of prompt, answer and environments, where the decode clock counts tokens and is at `position`."""
        before = self.made_before.get(rollout_id, 0) + self.observed_tokens.get(rollout_id, 0)
        return prompt_tokens + before + position - self.position[rollout_id]

    def oldest_version(self, rollout_id: int) -> int:
        """The version that sampled its first token, or will: engines never go back."""
        if self.engine[rollout_id] < 0:  # it has made nothing, and will with weights of this version or newer
            return min(clock.weights.versions[-1] for clock in self.clocks)
        engine, position, before = self.engine[rollout_id], self.position[rollout_id], self.before[rollout_id]
        for stint in self.stints.get(rollout_id, ()):
            if stint.tokens:
                engine, position, before = stint.engine, stint.position, stint.before
                break
        clock = self.clocks[engine]
        return clock.weights.versions[clock.weights.first_index(position, before, clock.unit)]

    def newest_version(self, rollout_id: int) -> int:
        """The weights that it was interrupted under."""
        stint = self.stints[rollout_id][-1]
        return self.clocks[stint.engine].weights.versions[stint.after]

    def last_version(self, rollout_id: int) -> int:
        """The version that sampled the last token of a rollout that finished."""
        engine, before, after = self.engine[rollout_id], self.before[rollout_id], self.after[rollout_id]
        if rollout_id in self.made_before:
            return self.segments(rollout_id)[-1].version
        clock = self.clocks[engine]
        if after > before:
            among = clock.weights.positions[before : after + 1]
            cuts = cut_at_publishes(self.position[rollout_id], self.tokens[rollout_id], clock.unit, among)
            before += cuts[-1].publish
        return clock.weights.versions[before]

    def all_stints(self, rollout_id: int) -> list[Stint]:
        """Of one rollout, in order; the last one only if it finished."""
        stints = list(self.stints.get(rollout_id, ()))
        if not isnan(self.finished_s[rollout_id]):
            made = self.made_before.get(rollout_id, 0)
            last = Stint(
                rollout_id,
                self.engine[rollout_id],
                self.resumed_s.get(rollout_id, self.started_s[rollout_id]),
                self.finished_s[rollout_id],
                self.position[rollout_id],
                made,
                self.tokens[rollout_id] - made,
                self.before[rollout_id],
                self.after[rollout_id],
            )
            stints.append(last)
        return stints

    def segments(self, rollout_id: int) -> tuple[Segment, ...]:
        """Which version sampled which tokens; times are those of whole stints' ends and of publishes."""
        return tuple(piece for stint in self.all_stints(rollout_id) for piece in self._pieces(stint))

    def _pieces(self, stint: Stint) -> Iterator[Segment]:
        clock = self.clocks[stint.engine]
        weights = clock.weights
        among = weights.positions[stint.before : stint.after + 1]
        start_s = stint.start_s
        cuts = cut_at_publishes(stint.position, stint.tokens, clock.unit, among)
        for publish, start_token, tokens in cuts:
            end_token = start_token + tokens
            end_s = stint.end_s
            if end_token < stint.tokens:
                end_s = clock.moment(stint.before + publish + 1, stint.position + end_token * clock.unit)
            version = weights.versions[stint.before + publish]
            yield Segment(version, stint.start_token + start_token, tokens, start_s, end_s)
            start_s = end_s
