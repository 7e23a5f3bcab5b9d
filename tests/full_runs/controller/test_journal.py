"""A journal is a run's memory: complete lines are kept, and the event log follows from them."""

import math

import pytest

from full_runs.controller.journal import Journal, event_log, failures, lines, rollout_row
from tests.full_runs.controller.test_buffer import asked, made


@pytest.fixture
def written(tmp_path):
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    first, second = asked(0), asked(1)
    for each in (first, second):
        journal.write("rollout", **rollout_row(each, None, status="in_flight"))
    done = made(first, 2, 3, 3, finished_s=5.0)
    journal.write("rollout", **rollout_row(first, done, status="queued", group_ready_s=5.0))
    journal.write("segment", rollout_id=0, version=2, start_token=0, tokens=1, start_s=0.0, end_s=1.0)
    journal.interval("trainer", "busy", "policy_update", 6.0, 7.0)
    journal.interval("trainer", "idle", "no_batch", 7.0, 7.0)  # no time: no row
    journal.write(
        "update", version=4, wait_start_s=0.0, train_start_s=6.0, train_end_s=7.0, rollouts=1, tokens=3,
        metrics={"reward": 1.0, "entropy": None},
    )  # fmt: skip
    row = rollout_row(first, done, status="trained", group_ready_s=5.0, consumed_s=6.0, consumed_version=3)
    journal.write("rollout", **row)
    journal.write("push", version=5, published_s=9.0, save_s=0.1, stood_still_s=0.5)
    yield journal
    journal.close()


def test_the_event_log_has_one_row_a_rollout_and_its_last_word(written):
    rows = event_log(lines(written.path)).rollouts.to_pylist()
    assert [row["rollout_id"] for row in rows] == [0, 1]
    assert [row["status"] for row in rows] == ["trained", "in_flight"]
    assert (rows[0]["first_version"], rows[0]["last_version"], rows[0]["oldest_version"]) == (2, 3, 2)
    assert (rows[0]["enqueued_s"], rows[0]["consumed_s"], rows[0]["consumed_version"]) == (5.0, 6.0, 3)
    assert (rows[0]["action_tokens"], rows[0]["observation_tokens"], rows[0]["reward"]) == (3, 0, 1.0)
    assert rows[1]["finished_s"] is None


def test_an_update_is_published_with_the_first_push_that_holds_it(written):
    (row,) = event_log(lines(written.path)).updates.to_pylist()
    assert (row["version"], row["published_s"], row["reward"]) == (4, 9.0, 1.0)
    assert math.isnan(row["entropy"])


def test_intervals_and_segments_are_rows(written):
    log = event_log(lines(written.path))
    assert log.intervals.num_rows == log.segments.num_rows == 1


def test_a_slot_whose_engine_stands_still_for_a_push_does_not_decode(written):
    written.interval("engine-0/slot-0", "busy", "decode", 8.0, 10.0)
    rows = event_log(lines(written.path)).intervals.to_pylist()[1:]
    assert [(r["state"], r["cause"], r["start_s"], r["end_s"]) for r in rows] == [
        ("busy", "decode", 8.0, 8.5),
        ("idle", "sync", 8.5, 9.0),
        ("busy", "decode", 9.0, 10.0),
    ]


def test_what_is_written_in_one_piece_is_a_line_each(tmp_path):
    rows = [rollout_row(asked(i), None, status="in_flight") for i in range(3)]
    facts = []
    for name in ("one by one", "in one piece"):
        journal = Journal(tmp_path / name)
        if name == "in one piece":
            journal.write_all("rollout", rows)
            journal.write_all("rollout", [])
        else:
            for row in rows:
                journal.write("rollout", **row)
        facts.append(list(lines(journal.path)))  # before it is closed: whoever is killed loses none
        journal.close()
    assert facts[0] == facts[1] == [{"kind": "rollout", **row} for row in rows]


def test_a_line_that_was_cut_off_costs_nothing_else(written):
    whole = list(lines(written.path))
    with written.path.open("a") as file:
        file.write('{"kind": "rollout", "rollout_i')
    assert list(lines(written.path)) == whole


def test_a_line_that_is_broken_in_the_middle_is_named(written):
    text = written.path.read_text().splitlines(keepends=True)
    text[2] = text[2][:-5] + "\n"
    written.path.write_text("".join(text))
    with pytest.raises(ValueError, match=r"journal\.jsonl: line 3 is not JSON"):
        list(lines(written.path))


def test_what_was_measured_after_an_update_is_a_metric_of_it(written):
    written.write("measured", version=4, metrics={"accuracy": 0.25, "response_tokens": None})
    facts = list(lines(written.path))
    for _ in range(2):  # the facts are read, not changed
        (row,) = event_log(facts).updates.to_pylist()
        assert (row["reward"], row["accuracy"]) == (1.0, 0.25)
        assert math.isnan(row["response_tokens"])


def test_failures_are_counted_by_kind(written):
    for what in ("engine", "environment", "engine"):
        written.write("failure", what=what, rollout_id=0, why="so")
    assert failures(lines(written.path)) == {"engine": 2, "environment": 1}


def test_a_journal_is_never_written_over_another(written):
    with pytest.raises(FileExistsError):
        Journal(written.path)


def test_time_in_a_journal_only_grows(written):
    before = written.clock()
    assert 0 <= before <= written.clock()
