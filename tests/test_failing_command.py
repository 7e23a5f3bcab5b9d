"""`policylag simulate` where things fail: what it counts, and what it says when nothing goes on."""

import json

import policylag

SMALL = [
    *("--quiet", "--slots", "32", "--engines", "2", "--rollouts-per-update", "16", "--group-size", "4"),
    *("--updates-per-batch", "1", "--updates", "20"),
]


def test_failures_are_flags_and_are_counted(capsys):
    words = [
        *SMALL,
        "--failures.environment-failure-probability",
        "0.1",
        "--failures.incomplete-group",
        "pad",
    ]
    assert policylag.main(["simulate", "groups", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["environment_failures"] > 0
    assert found["groups_padded"] > 0
    assert found["copies"] >= found["groups_padded"]


def test_a_run_that_waits_for_ever_says_so_in_one_line(capsys):
    words = [*SMALL, "--failures.environment-failure-probability", "0.2"]
    assert policylag.main(["simulate", "nemo-in-order", *words]) == 1
    said = capsys.readouterr().err
    assert said.startswith("policylag: nothing can happen any more at ")
    assert said.count("\n") == 1
    assert "The trainer waits for a batch: " in said


def test_impossible_failures_are_one_line_too(capsys):
    assert policylag.main(["simulate", "groups", "--failures.slow-factor", "2"]) == 2
    assert capsys.readouterr().err == (
        "policylag simulate: failures: slow_factor (2.0) has no effect with slow_engines 0\n"
    )
