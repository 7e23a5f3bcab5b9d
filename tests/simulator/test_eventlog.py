"""The event log survives being written, and its digest is that of its content."""

import json

import numpy as np
import pyarrow as pa
import pytest

from simulator.eventlog import INTERVALS, SCHEMAS, EventLog, Recorder


@pytest.fixture
def recorder():
    recorder = Recorder()
    recorder.add_rollout(rollout_id=0, action_tokens=5, started_s=0.5, status="trained")
    recorder.add_rollout(
        rollout_id=1, action_tokens=7, started_s=0.75, status="in_flight", reward=float("nan")
    )
    recorder.add_segment(rollout_id=0, version=0, start_token=0, tokens=5, start_s=0.5, end_s=1.0)
    recorder.add_update({"loss": 0.25}, version=1, train_start_s=1.0, train_end_s=2.0)
    recorder.add_update({"critic_loss": 4}, version=2, train_start_s=2.0, train_end_s=3.0)
    recorder.add_interval(resource="trainer", state="busy", cause="policy_update", start_s=1.0, end_s=3.0)
    return recorder


def test_an_empty_log_has_every_column():
    for name, table in Recorder().log().tables().items():
        assert table.schema == SCHEMAS[name]
        assert table.num_rows == 0


def test_what_was_not_said_is_null(recorder):
    rows = recorder.log().rollouts.to_pylist()
    assert rows[0]["finished_s"] is None
    assert rows[0]["action_tokens"] == 5


def test_metrics_become_columns_of_updates(recorder):
    updates = recorder.log().updates
    assert updates.column("loss").to_pylist() == [0.25, None]
    assert updates.column("critic_loss").to_pylist() == [None, 4.0]


def test_unknown_columns_are_refused(recorder):
    with pytest.raises(ValueError, match=r"rollouts has no columns \['lenght'\]"):
        recorder.add_rollout(lenght=3)
    with pytest.raises(ValueError, match="metrics may not be named like columns"):
        recorder.add_update({"tokens": 1.0}, version=3)
    with pytest.raises(ValueError, match="intervals has columns"):
        recorder.extend("intervals", {"resource": ["trainer"]})


def test_blocks_of_columns_are_rows_too(recorder):
    names = ["busy", "idle"]
    recorder.extend(
        "intervals",
        {"resource": ["a", "b"], "state": names, "cause": names, "start_s": np.zeros(2), "end_s": np.ones(2)},
    )
    assert recorder.log().intervals.column("resource").to_pylist() == ["trainer", "a", "b"]


def test_written_and_read_it_is_the_same(recorder, tmp_path):
    log = recorder.log()
    log.write(tmp_path / "runs" / "one", config={"b": 1, "a": None}, meta={"clock": "simulated"})
    again = EventLog.read(tmp_path / "runs" / "one")
    assert again.digest() == log.digest()
    assert again.updates.equals(log.updates)
    assert json.loads((tmp_path / "runs/one/config.json").read_text()) == {"a": None, "b": 1}
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["one"]


def test_a_run_is_never_written_over_another(recorder, tmp_path):
    recorder.log().write(tmp_path / "run")
    with pytest.raises(FileExistsError, match="run is not empty"):
        recorder.log().write(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    recorder.log().write(tmp_path / "empty")


def test_nothing_half_written_is_left(recorder, tmp_path):
    with pytest.raises(TypeError):
        recorder.log().write(tmp_path / "run", config={"law": object()})
    assert list(tmp_path.iterdir()) == []


def test_reading_what_is_no_run_says_so(tmp_path, recorder):
    with pytest.raises(FileNotFoundError, match=r"rollouts.parquet is missing"):
        EventLog.read(tmp_path)
    recorder.log().write(tmp_path / "run")
    (tmp_path / "run" / "segments.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"segments.parquet is missing"):
        EventLog.read(tmp_path / "run")


def test_a_table_without_a_column_or_of_another_type_is_refused(recorder):
    tables = recorder.log().tables()
    with pytest.raises(ValueError, match="intervals lacks the column cause"):
        EventLog(**{**tables, "intervals": tables["intervals"].drop_columns("cause")})
    as_text = tables["intervals"].cast(INTERVALS.set(3, pa.field("start_s", pa.string())))
    with pytest.raises(ValueError, match=r"intervals.start_s is string, the schema says double"):
        EventLog(**{**tables, "intervals": as_text})


def test_the_digest_is_that_of_the_content(recorder):
    log = recorder.log()
    tables = log.tables()
    chunked = pa.concat_tables([tables["rollouts"].slice(0, 1), tables["rollouts"].slice(1)])
    assert EventLog(**{**tables, "rollouts": chunked}).digest() == log.digest()
    swapped = tables["rollouts"].take([1, 0])
    assert EventLog(**{**tables, "rollouts": swapped}).digest() != log.digest()


@pytest.mark.parametrize(
    "change",
    [{"rollout_id": 2}, {"started_s": 0.76}, {"status": "queued"}, {"reward": None}, {"finished_s": 0.0}],
)
def test_any_other_value_gives_another_digest(recorder, change):
    other = Recorder(segments=recorder.segments, intervals=recorder.intervals, updates=recorder.updates)
    other.rollouts.append(recorder.rollouts[0])
    before = dict(zip(SCHEMAS["rollouts"].names, recorder.rollouts[1], strict=True))
    other.add_rollout(**{**before, **change})
    assert other.log().digest() != recorder.log().digest()
