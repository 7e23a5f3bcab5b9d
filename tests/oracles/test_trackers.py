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


def test_wandb(tmp_path, folders):
    from wandb.proto.wandb_internal_pb2 import Record

    export(folders, "wandb", tmp_path / "out")
    found = {}
    for path in (tmp_path / "out" / "wandb").glob("offline-run-*/*.wandb"):
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
    assert found.keys() == {"a", "b"}
    for folder in folders:
        assert found[folder.name] == expected(folder)


def test_trackio(tmp_path, folders):
    export(folders, "trackio", tmp_path / "out")
    with sqlite3.connect(tmp_path / "out" / "policylag.db") as database:
        kept = database.execute("select run_name, step, metrics from metrics").fetchall()
    for folder in folders:
        assert {step: json.loads(values) for name, step, values in kept if name == folder.name} == expected(
            folder
        )
