"""What is exported in the words of another system is audited as the run itself is."""

import csv
import json
import math

import numpy as np
import pytest

from analysis.audit.examine import examine
from analysis.audit.limits import Limits
from analysis.audit.load import load
from analysis.export.rows import rows
from analysis.export.tensorboard import write_tensorboard
from analysis.export.text import write_csv, write_jsonl
from analysis.export.words import WORDS
from analysis.runs import load_run
from analysis.systems.columns import KNOWN
from simulator.config import DropByAge
from simulator.experiments import groups
from simulator.pipeline.pipeline import run as simulate
from simulator.runfolder import write_run
from tests.analysis.audit.logs import healthy
from tests.analysis.export.runs import sick, write


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    config = groups(
        slots=64, engines=2, rollouts_per_update=16, updates=60, staleness=DropByAge(max_lag_updates=4)
    )
    write_run(root / "timing", simulate(config).log, config, arm="arm")
    return {
        "sick": write(root / "sick", sick()),
        "healthy": write(root / "healthy", healthy(1)),
        "timing": root / "timing",
    }


def found(path):
    """Everything that an audit finds, but for the change to make, which is in the system's words.

    Idleness, too, is left out: a run's is of stretches, that of a log in seconds of each update.
    """
    audit = examine(load([path]), Limits(lag_bound=5))
    return {
        (one.check, one.severity): (one.what, one.n, one.where, dict(one.evidence))
        for one in audit.findings
        if one.check != "idle"
    }


def as_jsonl(path, run, words):
    with path.open("w") as stream:
        write_jsonl(stream, rows(run, words), words)


def as_csv(path, run, words):
    with path.open("w", newline="") as stream:
        write_csv(stream, rows(run, words), words)


def as_events(path, run, words):
    write_tensorboard(path, rows(run, words))


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", ["sick", "healthy", "timing"])
@pytest.mark.parametrize("write_as", [as_jsonl, as_csv, as_events])
def test_an_export_is_audited_as_the_run_itself(tmp_path, folders, words, name, write_as):
    run = load_run(folders[name])
    write_as(tmp_path / "out", run, WORDS[words])
    own, read = found(folders[name]), found(tmp_path / "out")
    assert read.keys() == own.keys()
    # Scalars of TensorBoard are 32-bit floats.
    close = {"rel": 1e-5, "abs": 1e-6} if write_as is as_events else {"rel": 1e-12}
    for key, (what, n, where, evidence) in own.items():
        assert read[key][1:3] == (n, where), key
        assert read[key][3] == pytest.approx(evidence, **close), key
        if write_as is not as_events:
            assert read[key][0] == what


def test_the_sick_run_is_found_sick_in_every_way(folders):
    checks = {check for check, _ in found(folders["sick"])}
    assert {"lag creeps up", "effective sample size", "divergence", "clipped and masked"} <= checks
    said = " ".join(what for what, *_ in found(folders["sick"]).values())
    assert "nearly all of it is where the advantage is negative" in said


@pytest.mark.parametrize("words", ["verl", "prime-rl", "skyrl"])
def test_the_reader_knows_whose_words_they_are(tmp_path, folders, words):
    as_jsonl(tmp_path / "out", load_run(folders["sick"]), WORDS[words])
    log = load([tmp_path / "out"])
    assert log.system is WORDS[words].system
    assert log.sources[0].counted_by == WORDS[words].step


@pytest.mark.parametrize("words", WORDS)
def test_every_number_is_read_back_as_it_was(tmp_path, folders, words):
    """Not only what a check uses: each column of the run's own audit, bit for bit or within one rounding."""
    as_jsonl(tmp_path / "out", load_run(folders["sick"]), WORDS[words])
    own, read = load([folders["sick"]]).updates, load([tmp_path / "out"]).updates
    for column in own.columns:
        if column == "trainer_idle_share" and column not in WORDS[words].names and words != "policylag":
            continue  # of each update there
        np.testing.assert_allclose(read[column], own[column], rtol=1e-12, err_msg=column)


def test_layouts_by_hand(tmp_path):
    """The first update of a run in four systems' words."""
    run = load_run(write(tmp_path / "run", {"update": np.ones(1), "lag_max": np.zeros(1)} | SMALL, mine=7.0))
    expected = {
        "policylag": {
            "update": 1,
            "lag_mean": 2.5,
            "kl_k3": 0.25,
            "zero_variance_share": 1.0,
            "step_s": 20.0,
            "trainer_wait_s": 5.0,
            "mine": 7.0,
        },
        "prime-rl": {
            "step": 1,
            "off_policy/mean": 2.5,
            "mismatch_kl/all/mean": 0.25,
            "effective_batch_size/all": 0.0,
            "time/step": 20.0,
            "time/wait_for_batch": 5.0,
            "masked_advantage_negative/mean": 0.75,
            "policylag/mine": 7.0,
        },
        "skyrl": {
            "trainer/global_step": 1,
            "async/staleness_mean": 2.5,
            "policylag/kl_k3": 0.25,
            "reward/zero_std_group_fraction": 1.0,
            "timing/wait_for_generation_buffer": 5.0,
            "policylag/mine": 7.0,
        },
        "verl": {
            "training/off_policy/trajectory_staleness_worst/mean": 2.5,
            "rollout_corr/k3_kl": 0.25,
            "fully_async/trainer/idle_ratio": 0.25,
            "timing_s/step": 20.0,
            "policylag/mine": 7.0,
        },
    }
    for words, part in expected.items():
        as_jsonl(tmp_path / words, run, WORDS[words])
        record = json.loads((tmp_path / words).read_text())
        if words == "verl":
            assert record["step"] == 1
            record = record["data"]
        assert {name: record[name] for name in part} == pytest.approx(part)


SMALL = {
    "lag_mean": np.array([2.5]),
    "kl_k3": np.array([0.25]),
    "masked_fraction": np.array([0.4]),
    "masked_negative": np.array([0.3]),
}


def test_nothing_but_numbers_is_written_and_rows_keep_their_order(tmp_path):
    series = healthy(2)
    series["ess"][3], series["kl_k1"][4], series["entropy"][:] = math.nan, math.inf, math.nan
    run = load_run(write(tmp_path / "run", series))
    for words in WORDS.values():
        as_jsonl(tmp_path / "jsonl", run, words)
        text = (tmp_path / "jsonl").read_text()
        assert "NaN" not in text
        assert "Infinity" not in text
        steps = [json.loads(line)[words.step] for line in text.splitlines()]
        assert steps == list(range(1, 121))
        as_csv(tmp_path / "csv", run, words)
        table = list(csv.DictReader((tmp_path / "csv").read_text().splitlines()))
        assert [int(row[words.step]) for row in table] == steps
        assert table[3][words.name("ess")] == ""
        assert words.name("entropy") not in table[0]


def test_lags_in_versions_of_several_updates(folders):
    run = load_run(folders["sick"])
    for one, four in zip(
        rows(run, WORDS["verl"]), rows(run, WORDS["verl"], updates_per_version=4), strict=True
    ):
        for name, value in one.values.items():
            assert four.values[name] == pytest.approx(value / 4 if "staleness" in name else value, rel=1e-12)


def test_no_name_is_used_twice_and_each_is_read_as_what_it_was_written_for():
    for words in WORDS.values():
        assert len(set(words.names.values())) == len(words.names)
        assert set(words.names) <= KNOWN
