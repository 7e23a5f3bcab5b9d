"""The simulator as the machine that is measured: what is foretold of it must come true."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.runs import load_run
from full_runs.calibrate.fit import fit, part_of
from full_runs.calibrate.recorded import of_full_run
from full_runs.configs.record import FullConfig
from simulator.command_line import BadInputError
from simulator.config import PipelineConfig, staleness_rule
from simulator.pipeline.pipeline import run
from simulator.rules.on_sync import OnSync
from simulator.runfolder import write_run
from tests.full_runs.calibrate.test_speed import ENGINE


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    _write(folder / "one", slots=64)
    _write(folder / "fewer", slots=24)
    _write(folder / "groups", slots=64, group_size=8)
    return folder


def _write(folder: Path, **changes: Any) -> None:
    fields: dict[str, Any] = {
        "engines": 2,
        "engine": ENGINE,
        "rollouts_per_update": 32,
        "updates": 120,
        "policy_update_s": 4.0,
        "push_s": 0.5,
        "lengths": {"kind": "exponential", "mean_tokens": 200},
        "staleness": {"kind": "bounded_lag", "eta_batches": 4},
    }
    config = PipelineConfig.model_validate(fields | changes)
    write_run(folder, run(config).log, config, arm=folder.name)


def calibrate(*words: str | Path) -> str:
    from full_runs.calibrate.command import answer

    return answer([str(word) for word in words])


def test_the_rest_of_a_run_and_other_settings_are_foretold(runs: Path):
    said = json.loads(
        calibrate(runs / "one", "--against", runs / "fewer", "--against", runs / "groups", "--json")
    )
    errors = {(Path(row["run"]).name, row["measure"]): row["error"] for row in said["errors"]}
    assert {run for run, _ in errors} == {"fitted part", "rest", "fewer", "groups"}
    assert len(errors) == 20
    worst = max(errors, key=lambda key: abs(errors[key]))
    assert abs(errors[worst]) < 0.1, (worst, errors[worst])


def test_what_it_writes_can_be_simulated(runs: Path, tmp_path: Path):
    from simulator.answer import answer as simulate

    calibrate(runs / "one", "--out", tmp_path / "fitted")
    assert sorted(p.name for p in (tmp_path / "fitted").iterdir()) == [
        "config.json",
        "errors.csv",
        "lengths.csv",
    ]
    found, *_ = simulate(["--config", str(tmp_path / "fitted" / "config.json"), "--updates", "8", "--json"])
    assert found.log.updates.num_rows == 8


def test_a_full_run_is_foretold_with_its_pushes_and_its_measuring():
    config = FullConfig(measure_every=5, held_out=7, updates_per_push=2, updates=20)
    pipeline = of_full_run(config)
    assert staleness_rule(pipeline).on_sync == OnSync(pauses_engines=True)
    # At least so many updates, and then after a push.
    assert (pipeline.validate_every_updates, pipeline.validation_rollouts) == (6, 7)
    read = PipelineConfig.model_validate_json(pipeline.model_dump_json())
    assert read == pipeline


def test_checkpoints_count_as_the_trainers_work(tmp_path: Path):
    """One of 6 s every 10 updates takes as much of the trainer's time as .6 s an update."""
    run_folder = tmp_path / "plain"
    _write(run_folder, slots=64)
    run = load_run(run_folder)
    trainer = run.intervals["resource"] == "trainer"
    ends_s = run.intervals.loc[trainer & (run.intervals["cause"] == "policy_update"), "end_s"].to_numpy()
    made = [("trainer", "busy", "checkpoint", end, end + 6.0) for end in ends_s[9::10]]
    columns = ["resource", "state", "cause", "start_s", "end_s"]
    intervals = pd.concat([run.intervals, pd.DataFrame(made, columns=columns)], ignore_index=True)
    found = fit(replace(run, intervals=intervals), part_of(run, 0.25, 0.75), prompt_tokens=1)
    assert found.checkpoint_s.estimate == pytest.approx(0.6)
    assert fit(run, part_of(run, 0.25, 0.75), prompt_tokens=1).checkpoint_s.estimate == 0


def test_the_table_names_what_was_measured_and_what_was_foretold(runs: Path):
    said = calibrate(runs / "one")
    for words in ("Fitted to updates 13 to 60", "step_s_per_kv_token", "updates an hour", "extrapolation"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nowhere"], "nowhere is not a run folder"),
        (["one", "--until", "1.5"], r"until \(1.5\) must be"),
        (["one", "--warm-up", "0.49", "--until", "0.5"], "1 lie in the part"),
        (["one", "--out", "one"], "is not an empty folder"),
    ],
)
def test_bad_input_is_one_line(runs: Path, words: list[str], why: str):
    paths = [str(runs / word) if word in ("nowhere", "one") else word for word in words]
    with pytest.raises(BadInputError, match=why) as refused:
        calibrate(*paths)
    assert "\n" not in str(refused.value)
