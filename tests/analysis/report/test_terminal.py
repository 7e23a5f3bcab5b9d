import dataclasses
import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from analysis.measures.collapse import Criteria
from analysis.report.build import figure_files, judged
from analysis.report.page import data_table
from analysis.report.terminal import print_study, run_json, run_text, study_json
from analysis.report.words import claims, multiplicity
from analysis.study import summarise
from simulator.studies.hypothesis import Hypothesis
from tests.analysis.factories import recorded, run_of

CLAIM = Hypothesis(
    id="H1",
    claim="[b] learns faster than [a]",
    source="ours",
    metric="hours_to_target",
    kind="time_to_target",
    better_arm="[b]",
    worse_arm="[a]",
    direction="lower",
)


@pytest.fixture(scope="module")
def report():
    """Arm [a] never reaches the target; names look like markup."""
    curves = {"[a]": np.full(40, 0.1), "[b]": np.linspace(0.1, 0.9, 40)}
    runs = [
        run_of(recorded(curve + 0.001 * seed), arm=arm, seed=seed)
        for arm, curve in curves.items()
        for seed in range(3)
    ]
    return judged(summarise(runs, Criteria(target=0.7, chance=0.1)), hypotheses=[CLAIM], title="two arms")


def test_what_was_not_measured_is_left_out_not_printed_as_nan():
    outcomes = {"hours": 1.25, "final_score": math.nan, "fate": "not measured", "updates": 3}
    assert run_text(outcomes).split() == ["hours", "1.25", "fate", "not", "measured", "updates", "3"]
    assert json.loads(run_json(outcomes)) == {"hours": 1.25, "fate": "not measured", "updates": 3}


def test_the_parts_of_the_lag_are_one_line_and_four_numbers():
    parts = {"lag_generation": 1.0, "lag_group_wait": 2.5, "lag_queue": 0.25, "lag_trainer_ahead": 1.5}
    outcomes = {"mean_lag": 5.25, **parts, "fate": "not measured"}
    lines = run_text(outcomes).splitlines()
    assert [line.split()[0] for line in lines] == ["mean_lag", "lag_split", "fate"]
    assert lines[1].endswith("generation 1 + group wait 2.5 + queue 0.25 + trainer ahead 1.5")
    assert json.loads(run_json(outcomes)) == outcomes


def test_a_claim_about_an_arm_that_was_left_out_reads_not_run_everywhere(report):
    gone = dataclasses.replace(CLAIM, id="H2", worse_arm="gone")
    said = judged(report.study, hypotheses=[CLAIM, gone], title="one arm")
    out = io.StringIO()
    print_study(said, Console(file=out, width=80))
    line = next(line for line in out.getvalue().splitlines() if line.startswith("H2"))
    assert line == "H2 not run: [b] learns faster than [a]. no run of gone"
    row = json.loads(study_json(said))["claims"][1]
    assert (row["verdict"], row["missing_arms"], row["estimate"]) == ("not run", ["gone"], None)
    assert "Of 2 claims: 1 supported, 0 contradicted, 0 not separable, 1 not run." in said.headline
    table = data_table(claims(said.verdicts), corner="id")
    assert '<span class="not-run">not run</span>' in table
    assert "no run of gone; claimed: more than 0" in table
    assert multiplicity(said.verdicts).startswith("1 claims, each judged")
    assert multiplicity(said.verdicts[1:]) == "No claim was judged: of each an arm was not run."


@pytest.mark.parametrize("width", [40, 80, 200])
def test_one_line_a_claim_at_any_width(report, width):
    out = io.StringIO()
    print_study(report, Console(file=out, width=width))
    claims = [line for line in out.getvalue().splitlines() if line.startswith("H1")]
    assert len(claims) == 1
    assert "H1 supported: [b] learns faster than [a]." in claims[0]
    assert "reached by 3 of 3, 0 of 3" in claims[0]
    assert "not reached" in " ".join(out.getvalue().split())


def test_json_has_no_infinity(report):
    found = json.loads(study_json(report), parse_constant=pytest.fail)
    assert [arm["arm"] for arm in found["arms"]] == ["[a]", "[b]"]
    assert found["arms"][0]["median_hours_to_target"] is None
    assert found["claims"][0]["verdict"] == "supported"


def test_figures_alone_are_black_on_white(report):
    files = {name: content for name, content in figure_files(report) if name.endswith(".svg")}
    assert "accuracy-by-update.svg" in files
    for name, svg in files.items():
        assert svg.startswith(b'<svg style="background:#fff;color:#000"'), name
