"""What wandb and trackio keep of an export, read from their own files, is what the export said."""

import json
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.export.rows import rows
from analysis.export.words import WORDS
from analysis.runs import load_run
from tests.analysis.audit.logs import healthy
from tests.analysis.export.runs import write

pytestmark = pytest.mark.oracles
pytest.importorskip("wandb", reason="needs the environment of `make oracles`")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folders(tmp_path):
    return [write(tmp_path / "runs" / name, healthy(seed, updates=6)) for seed, name in enumerate("ab")]


def export(folders, sort, out):
    """In a process of its own: trackio takes its folder when it is imported."""
    words = ["export", *map(str, folders), "--as", "verl", "--to", sort, "--out", str(out), "--quiet"]
    front_door = "import sys, policylag; sys.exit(policylag.main())"
    done = subprocess.run(
        [sys.executable, "-c", front_door, *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr


def expected(folder):
    return {row.update: row.values for row in rows(load_run(folder), WORDS["verl"])}


def wandb_records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log format after a header of 7 bytes, in blocks of 32 KiB."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


def wandb_histories(folder: Path):
    """By run, by step: what was logged."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = {}
    for path in (folder / "wandb").glob("offline-run-*/*.wandb"):
        name, history = "", {}
        for data in wandb_records(path.read_bytes()):
            record = Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
            if record.WhichOneof("record_type") == "history":
                items = {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                }
                step = items["_step"]
                history[step] = {key: value for key, value in items.items() if not key.startswith("_")}
        found[name] = history
    return found


def test_wandb(tmp_path, folders):
    export(folders, "wandb", tmp_path / "out")
    found = wandb_histories(tmp_path / "out")
    assert found.keys() == {"a", "b"}
    for folder in folders:
        assert found[folder.name] == expected(folder)


LIVE = """
import sys
from pathlib import Path
from full_runs.controller.journal import Journal
from full_runs.live import Live, wandb

folder = Path(sys.argv[1])
journal = Journal(folder / "journal.jsonl")
live = Live(wandb, folder / "track", journal.path, name="one", config={"group_size": 8})
times = {"wait_start_s": 0.0, "train_start_s": 0.0, "train_end_s": 1.0, "rollouts": 8, "tokens": 80}
for version, reward in ((1, 0.0), (2, 0.0), (None, None), (2, 1.0), (3, 1.0)):
    if version is None:
        journal.write("resume", version=1)
        continue
    journal.write("update", version=version, **times, metrics={"reward": reward})
    assert live.told(version, {"reward": reward}) is None
live.close()
"""


def test_wandb_shows_a_full_run_as_it_goes_and_each_update_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIVE, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    ((name, history),) = wandb_histories(tmp_path / "track").items()
    assert name == "one"
    assert {step: row["reward"] for step, row in history.items()} == {1: 0.0, 2: 1.0, 3: 1.0}


def test_trackio(tmp_path, folders):
    export(folders, "trackio", tmp_path / "out")
    with sqlite3.connect(tmp_path / "out" / "policylag.db") as database:
        kept = database.execute("select run_name, step, metrics from metrics").fetchall()
    for folder in folders:
        assert {step: json.loads(values) for name, step, values in kept if name == folder.name} == expected(
            folder
        )
