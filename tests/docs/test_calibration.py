"""The calibration's table: means over seeds by hand, words for what is beyond the bar, runs that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools import calibration
from docs.tools.calibration_table import Error, over_seeds, read, table
from full_runs.calibrate.foretell import MEASURES
from full_runs.calibrate.recorded import of_full_run
from full_runs.configs.record import FullConfig
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run
from tests.full_runs.calibrate.test_speed import ENGINE

OWN = {"trainer_cores": "0", "engine_cores": "1", "controller_cores": "1"}


def errors(*values: float, part: str = "rest") -> list[Error]:
    """Each a seed's, of every measure."""
    return [
        Error(seed=seed, part=part, measure=measure, error=value)
        for seed, value in enumerate(values)
        for measure in MEASURES
    ]


def test_a_mean_and_students_interval_by_hand() -> None:
    """t at 2 degrees of freedom is 4.303, the standard error .1 / sqrt 3: .248 on either side."""
    found = over_seeds(errors(-0.08, 0.02, 0.12))
    assert set(found) == {(measure, "rest") for measure in MEASURES}
    own = found["mean_lag", "rest"]
    assert (own.estimate, own.low, own.high, own.n) == pytest.approx((0.02, -0.2284, 0.2684, 3), abs=1e-4)


def test_the_table_says_percents_points_and_what_is_beyond_the_bar() -> None:
    wide = [
        Error(seed=one.seed, part=one.part, measure=one.measure, error=-0.16)
        if (one.part, one.measure, one.seed) == ("groups", "mean_lag", 1)
        else one
        for one in errors(0.01, 0.03) + errors(0.0, 0.0, part="groups")
    ]
    said = table(wide).splitlines()
    assert said[0] == "| | rest | groups |"
    assert said[2] == "| updates an hour | +2.0 % [-10.7, +14.7] | +0.0 % [+0.0, +0.0] |"
    assert "| trainer idle (points) | +2.0 [-10.7, +14.7] | +0.0 [+0.0, +0.0] |" in said
    assert len([line for line in said if line.startswith("|")]) == 2 + len(MEASURES)
    assert said[-1].startswith("n = 2 (seeds 0, 1), 95 % intervals")
    assert "Of 20 single errors 1 is beyond 15 %" in said[-1]
    assert said[-1].endswith("the largest is -16.0 % (lag, groups, seed 1).")


def test_one_seed_has_no_interval() -> None:
    said = table(errors(-0.1))
    assert "| updates an hour | -10.0 % |" in said
    assert "n = 1 (seed 0), no interval. Of 5 single errors none are beyond 15 %" in said


def test_the_part_that_was_fitted_is_no_foretelling() -> None:
    rows = [{"run": name, "measure": "mean_lag", "error": 0.1} for name in ("fitted part", "rest", "a/run")]
    found = read(3, {"errors": rows}, {"rest": "rest of the run", "a/run": "6 in flight"})
    assert [(one.seed, one.part) for one in found] == [(3, "rest of the run"), (3, "6 in flight")]


def test_runs_of_a_seed_differ_in_what_their_names_say() -> None:
    for cell in calibration.CELLS:
        first, second = (
            calibration.settings(cell, seed, Path("x"), cores=OWN, share=1.0).model_dump() for seed in (0, 1)
        )
        assert {name for name in first if first[name] != second[name]} == {"seed"}
    shared = calibration.settings(calibration.FITTED, 0, Path("x"), cores={}, share=0.5)
    assert (shared.trainer_cores, shared.engine_cores, shared.updates) == (None, None, 20)


def recorded(config: FullConfig, out: Path, **changes: object) -> None:
    """A simulated run in the place of a real one."""
    times = {
        "engine": ENGINE, "policy_update_s": 4.0, "push_s": 0.5, "prompt_tokens": 10,
        "lengths": {"kind": "exponential", "mean_tokens": 100},
    }  # fmt: skip
    pipeline = PipelineConfig.model_validate(of_full_run(config).model_dump() | times | changes)
    log = run(pipeline).log
    meta = {"arm": "x", "seed": config.seed, "clock": "wall", "digest": log.digest()}
    log.write(out / "run", config=config.model_dump(mode="json"), meta=meta)


def test_finished_runs_are_kept_and_make_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is started where all are there: no model is written either."""
    monkeypatch.chdir(tmp_path)
    out = Path("kept")
    for seed in range(2):
        for cell in calibration.CELLS:
            config = calibration.settings(cell, seed, out, cores=OWN, share=1.0)
            recorded(config, calibration.place(out, cell, seed))
    assert calibration.main(["--seeds", "2", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "| | rest of the run | 6 in flight | groups of 8, bound 4 |" in said.out
    assert "n = 2 (seeds 0, 1)" in said.out
    assert sorted(path.name for path in out.iterdir()) == ["seed-0", "seed-1"]
    # Of other settings they are neither used nor removed.
    assert calibration.main(["--seeds", "2", "--out", str(out), "--share", "0.5"]) == 2
    assert "holds a run whose updates is 40, not 20" in capsys.readouterr().err
    assert calibration.main(["--seeds", "2", "--out", str(out), "--shared-cores"]) == 2
    assert "whose trainer_cores is 0, not None" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--seeds", "0"], "--seeds is 0"),
        (["--share", "0"], "--share 0.0"),
        (["--share", "nan"], "--share nan"),
        (["--trainer-cores", "x"], "trainer_cores: 'x' is no list of cores"),
        (["--engine-cores", "1", "--out", "kept\0"], "null"),
    ],
)
def test_bad_input_is_said_and_nothing_is_started(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    try:
        status = calibration.main(words)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
