"""After a kill at any instant, every prompt is trained once or accounted as dropped, and none twice."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from full_runs.controller.buffer import Buffer
from full_runs.controller.journal import Journal, event_log, lines, opened, rollout_row
from full_runs.controller.records import Asked, Place
from full_runs.controller.resume import RESTART, Past, past_of, places_to_ask, rollout_rows
from simulator.rules.incomplete import drop_group
from simulator.rules.staleness import bounded_lag, drop_by_age
from tests.full_runs.controller.test_buffer import asked, made

BATCH = 4


def row(number: int, status: str, *versions: int, **more: Any) -> dict[str, Any]:
    """A line about rollout `number`, alone in its group; with versions, one that was finished."""
    of = asked(number)
    done = made(of, *versions) if versions else None
    return {"kind": "rollout", **rollout_row(of, done, status=status, **more)}


def ask(left: Past, group_size: int = 1) -> Iterator[Place]:
    return places_to_ask(left, group_size=group_size, distinct_prompts=None)


def update(version: int) -> dict[str, Any]:
    return {
        "kind": "update", "version": version, "wait_start_s": 0.0, "train_start_s": 1.0, "train_end_s": 2.0,
        "rollouts": 1, "tokens": 1, "metrics": {"loss": 1.0 / version},
    }  # fmt: skip


FACTS = [
    row(0, "trained", 0, consumed_version=0, consumed_s=1.0),
    update(1),
    {"kind": "push", "version": 1, "published_s": 2.5, "stood_still_s": 0.1},
    {"kind": "checkpoint", "version": 1},
    row(1, "dropped", 0, reason="too_old", consumed_version=1, consumed_s=3.0),
    row(2, "trained", 1, consumed_version=1, consumed_s=3.0),
    update(2),
    {"kind": "push", "version": 2, "published_s": 4.5, "stood_still_s": 0.1},
    row(3, "queued", 1),
    row(4, "in_flight"),
]
"""A checkpoint after update 1, and a second update that is lost."""


def test_what_a_checkpoint_holds_stays_and_all_else_is_asked_again():
    left = past_of(FACTS, group_size=1)
    assert (left.version, left.newest_version, left.clock_s) == (1, 2, 4.5)
    assert [each["rollout_id"] for each in left.over] == [0, 1]
    assert left.again == (Place(2, 2, 0), Place(3, 3, 0), Place(4, 4, 0))
    assert (left.groups, left.rollouts) == (5, 5)
    next_ones = list(islice(ask(left), 5))
    assert next_ones == [*left.again, Place(5, 5, 0), Place(6, 6, 0)]


def test_nothing_has_happened_before_the_first_line():
    assert past_of([], group_size=8) == Past()
    assert list(islice(ask(Past()), 2)) == [Place(0, 0, 0), Place(1, 1, 0)]


def test_without_a_checkpoint_all_is_lost_but_what_was_dropped():
    left = past_of([fact for fact in FACTS if fact["kind"] != "checkpoint"], group_size=1)
    assert left.version == 0
    assert [place.group_id for place in left.again] == [0, 2, 3, 4]


def test_a_second_kill_before_anything_was_asked_asks_the_same_again():
    left = past_of(FACTS, group_size=1)
    marked = [*FACTS, *({"kind": "rollout", **each} for each in left.lost_rows())]
    # Killed while the journal was told, and after.
    for facts in (marked[:-1], marked, [*marked, {"kind": "resume", "version": 1}]):
        again = past_of(facts, group_size=1)
        assert (again.version, again.again) == (1, left.again)


def test_the_event_log_goes_on_from_the_checkpoint():
    left = past_of(FACTS, group_size=1)
    facts = [*FACTS, *({"kind": "rollout", **each} for each in left.lost_rows())]
    facts.append({"kind": "resume", "version": 1})
    facts += [row(5, "trained", 1, consumed_version=1, consumed_s=5.0), update(2)]
    log = event_log(facts)
    assert log.updates["version"].to_pylist() == [1, 2]
    assert log.updates["published_s"].to_pylist() == [2.5, None]
    rollouts = {each["rollout_id"]: each for each in log.rollouts.to_pylist()}
    assert [rollouts[i]["status"] for i in range(6)] == ["trained", *["dropped"] * 4, "trained"]
    assert [rollouts[i]["reason"] for i in (1, 2, 3, 4)] == ["too_old", RESTART, RESTART, RESTART]
    # Dropped by a trainer that had two updates, one of them lost: no token is newer than that.
    assert {rollouts[i]["consumed_version"] for i in (2, 3, 4)} == {2}


def test_a_group_is_asked_again_whole_and_one_that_lost_a_member_is_not():
    of = [asked(i, group_size=2) for i in range(5)]  # of the last group one was never asked
    facts = [{"kind": "rollout", **rollout_row(each, None, status="in_flight")} for each in of]
    gone = rollout_row(of[2], None, status="dropped", reason="environment_failed", consumed_version=0)
    left = past_of([*facts, {"kind": "rollout", **gone}], group_size=2)
    assert left.again == (Place(0, 0, 0), Place(0, 0, 1), Place(2, 2, 0), Place(2, 2, 1))
    assert left.groups == 3


def test_a_member_that_was_tried_again_counts_by_its_last_attempt():
    first, second = (asked(i, group_size=2) for i in range(2))
    again = Asked(rollout_id=2, prompt_id=0, group_id=0, member=0, submitted_s=0.0)
    rows = [
        rollout_row(first, None, status="dropped", reason="environment_failed", consumed_version=0),
        rollout_row(second, made(second, 0), status="waiting"),
        rollout_row(again, None, status="in_flight"),
    ]
    left = past_of([{"kind": "rollout", **each} for each in rows], group_size=2)
    assert left.again == (Place(0, 0, 0), Place(0, 0, 1))


def test_rules_see_what_was_trained_before():
    """AReaL's gate at version 1: of (1 + 1 + 1) batches of one, one was trained, so two may start."""
    held = Buffer(
        bounded_lag(1), drop_group, batch_rollouts=1, group_size=1, most_tokens=10,
        on_drop=lambda *_: None, uniform=random.Random(0).random,
    )  # fmt: skip
    held.recall(past_of(FACTS, group_size=1))
    counts = held.counts(engine_version=1, trainer_version=1)
    assert (counts.trained_rollouts, counts.submitted_rollouts, counts.taken_batches) == (1, 1, 1)
    assert held.rule.admission(counts) == 2
    assert held.ledger.dropped_by_reason == {"too_old": (1, 1), RESTART: (3, 2)}
    assert (counts.submitted_since_publish_rollouts, counts.outstanding_rollouts) == (0, 0)


def test_an_opened_journal_is_cut_to_whole_lines_and_told_what_is_lost(tmp_path: Path):
    path = tmp_path / "journal.jsonl"
    text = "".join(json.dumps(fact) + "\n" for fact in FACTS)
    path.write_text(text + '{"kind": "rollout", "rollo')
    left, journal = opened(path, group_size=1)
    journal.begin(left.clock_s)
    assert journal.clock() >= 4.5
    journal.close()
    facts = list(lines(path))
    assert facts[: len(FACTS)] == json.loads(json.dumps(FACTS))
    assert facts[-1] == {"kind": "resume", "version": 1}
    assert [fact["rollout_id"] for fact in facts[len(FACTS) : -1]] == [2, 3, 4]


class Driven:
    """A run without engines and trainer: the real buffer and journal, moved by hand, killed by hand."""

    def __init__(self, path: Path, group_size: int) -> None:
        past, self.journal = opened(path, group_size=group_size)
        self.version = past.version
        self.ids = past.rollouts
        self.places = ask(past, group_size)
        self.buffer = Buffer(
            drop_by_age(2), drop_group, batch_rollouts=BATCH, group_size=group_size,
            most_tokens=10, uniform=random.Random(0).random, on_drop=self._dropped,
        )  # fmt: skip
        self.buffer.recall(past)

    def _write(self, asked, made, status, **more):
        self.journal.write("rollout", **rollout_row(asked, made, status=status, **more))

    def _dropped(self, made, reason):
        self._write(made.asked, made, "dropped", reason=reason, consumed_version=self.version)

    def start(self, _: random.Random) -> None:
        each = Asked(rollout_id=self.ids, submitted_s=0.0, **next(self.places)._asdict())
        self.ids += 1
        self.buffer.start(each, self.version)
        self._write(each, None, "in_flight")

    def finish(self, draw: random.Random) -> None:
        if self.buffer.running:
            each = made(self.buffer.running[draw.choice(sorted(self.buffer.running))], self.version)
            self._write(each.asked, each, "waiting")
            self.buffer.finish(each)

    def fail(self, draw: random.Random) -> None:
        if self.buffer.running:
            each = self.buffer.running[draw.choice(sorted(self.buffer.running))]
            self._write(each, None, "dropped", reason="environment_failed", consumed_version=self.version)
            self.buffer.fail(each, "environment_failed", 0.0)

    def train(self, draw: random.Random) -> None:
        batch = self.buffer.take(self.version)
        if batch is None:
            return
        self.version += 1
        self.buffer.trained(batch)
        for each in (each for group in batch for each in group.distinct):
            self._write(each.asked, each, "trained", consumed_version=self.version - 1)
        self.journal.write(**update(self.version))
        if draw.random() < 0.4:
            self.journal.write("checkpoint", version=self.version)


MOVES = st.sampled_from([*["start"] * 4, *["finish"] * 4, "fail", "train"])


@given(
    lives=st.lists(st.lists(MOVES, max_size=60), max_size=4),
    size=st.sampled_from([1, 2]),
    seed=st.integers(0, 999),
)
def test_however_often_it_is_killed_no_prompt_is_lost_or_trained_twice(tmp_path_factory, lives, size, seed):
    path, draw = tmp_path_factory.mktemp("journal") / "journal.jsonl", random.Random(seed)
    for moves in lives:
        run = Driven(path, size)
        for move in moves:
            getattr(run, move)(draw)
        run.buffer.ledger.check()
        run.journal.close()
        # Killed in the middle of a line, or of several that belong together; a checkpoint's is on the disk.
        data = path.read_bytes()
        kept = data.find(b"\n", data.rfind(b'"checkpoint"')) + 1 if b'"checkpoint"' in data else 0
        path.write_bytes(data[: max(kept, len(data) - draw.randrange(400))])
    last, journal = opened(path, group_size=size)
    journal.close()
    facts = list(lines(path))
    rows = rollout_rows(facts)
    trained: dict[int, list[int]] = {}
    for each in rows.values():
        if each["status"] == "trained":
            trained.setdefault(each["group_id"], []).append(each["member"])
    # Once, and all of its members.
    assert all(sorted(members) == list(range(size)) for members in trained.values())
    assert sum(map(len, trained.values())) == last.version * BATCH
    over = {each["group_id"] for each in rows.values() if each["reason"] not in (None, RESTART)}
    again = {place.group_id for place in last.again}
    assert not again & trained.keys()
    assert not again & over
    assert again | trained.keys() | over == set(range(last.groups))
    assert sorted(rows) == list(range(last.rollouts))


def test_a_journal_of_a_run_that_goes_on_is_never_begun_anew(tmp_path: Path):
    opened(tmp_path / "journal.jsonl", group_size=1)[1].close()
    with pytest.raises(FileExistsError):
        Journal(tmp_path / "journal.jsonl")
