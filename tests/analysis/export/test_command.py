"""`policylag export` as a user meets it."""

import importlib.util
import json
import os

import pytest

import policylag
from analysis.export import extras
from analysis.export.place import appearing
from tests.analysis.audit.logs import healthy
from tests.analysis.export.runs import write


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write(tmp_path_factory.mktemp("study") / "one", healthy(1, updates=20))


def said_by(capsys, *words):
    status = policylag.main(["export", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_without_a_place_it_goes_to_stdout(run, capsys):
    status, out, err = said_by(capsys, run)
    assert (status, err) == (0, "")
    assert [json.loads(line)["update"] for line in out.splitlines()] == list(range(1, 21))
    _, table, _ = said_by(capsys, run, "--to", "csv", "--as", "skyrl")
    assert table.splitlines()[0].startswith("trainer/global_step,async/staleness_mean,")


@pytest.mark.parametrize(("name", "first"), [("x.csv", "update,"), ("x.CSV", "update,"), ("x.jsonl", "{")])
def test_the_ending_says_the_sort(run, tmp_path, capsys, name, first):
    status, out, _ = said_by(capsys, run, "--out", tmp_path / "new" / name)
    assert (status, out.strip()) == (0, str(tmp_path / "new" / name))
    assert (tmp_path / "new" / name).read_text().startswith(first)


def test_of_several_runs_a_folder(run, tmp_path, capsys):
    write(tmp_path / "study" / "cells" / "a", healthy(2, updates=4))
    write(tmp_path / "study" / "cells" / "one", healthy(3, updates=4))
    status, *_ = said_by(capsys, run, tmp_path / "study", "--as=verl", "--out", tmp_path / "out", "--quiet")
    assert status == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a.jsonl",
        "one-2.jsonl",
        "one.jsonl",
    ]
    status, *_ = said_by(
        capsys, run, tmp_path / "study", "--to=tensorboard", "--out", tmp_path / "tb", "--quiet"
    )
    assert status == 0
    assert sorted(path.parent.name for path in (tmp_path / "tb").rglob("*tfevents*")) == ["a", "one", "one-2"]


@pytest.mark.parametrize("sort", ["jsonl", "csv", "tensorboard"])
def test_nothing_is_written_over(run, tmp_path, capsys, sort):
    place = tmp_path / "out"
    place.write_text("mine")
    status, out, err = said_by(capsys, run, "--to", sort, "--out", place)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "there already" in err
    assert place.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a run folder"),
        (["nowhere"], "nowhere"),
        (["{run}", "--as", "deepspeed"], "deepspeed"),
        (["{run}", "--to", "excel"], "excel"),
        (["{run}", "--to", "tensorboard"], "--out PATH"),
        (["{run}", "{run}"], "2 runs need a place"),
        (["{run}", "--updates-per-version", "0"], "above 0, got 0"),
        (["{run}", "--updates-per-version", "nan"], "above 0, got nan"),
        (["{broken}"], "export: {broken}: "),
        (["{empty}"], "has no update"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run, tmp_path, capsys, words, said):
    broken, empty = write(tmp_path / "broken", healthy(1, updates=4)), tmp_path / "empty"
    (broken / "updates.parquet").write_bytes(b"PAR1 and no more")
    write(empty, healthy(1, updates=0))
    given = {"run": run, "broken": broken, "empty": empty}
    status, out, err = said_by(capsys, *(word.format(**given) for word in words))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said.format(**given) in err


@pytest.mark.parametrize("sort", ["wandb", "trackio"])
def test_an_extra_that_is_missing_is_named(run, tmp_path, capsys, sort):
    if importlib.util.find_spec(sort) is not None:
        pytest.skip(f"{sort} is installed")
    status, _, err = said_by(capsys, run, "--to", sort, "--out", tmp_path / "out")
    assert (status, err) == (
        2,
        f"policylag export: {sort} needs the extra {sort}: pip install 'policylag[{sort}]'\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_is_there_is_no_missing_extra():
    assert extras.extra("json", "json") is json


def test_what_fails_half_way_leaves_nothing(run, tmp_path, capsys):
    """The second of two runs is broken: the first is not kept either."""
    broken = write(tmp_path / "runs" / "broken", healthy(1, updates=4))
    (broken / "updates.parquet").write_bytes(b"PAR1 and no more")
    out = tmp_path / "place" / "out"
    status, *_ = said_by(capsys, run, broken, "--out", out, "--quiet")
    assert status == 2
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_place_that_was_taken_meanwhile_keeps_what_it_has(tmp_path, is_folder):
    place = tmp_path / "out"

    def raced():
        with appearing(place) as part:
            part.mkdir() if is_folder else part.write_text("new")
            place.write_text("theirs")

    with pytest.raises(FileExistsError, match="never written over"):
        raced()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert place.read_text() == "theirs"


def test_a_link_to_nowhere_is_a_taken_place(tmp_path):
    os.symlink(tmp_path / "gone", tmp_path / "out")
    with pytest.raises(FileExistsError), appearing(tmp_path / "out"):
        pass
