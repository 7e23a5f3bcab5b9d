"""Faults that were put into a log are found, each by its name; a run that learns well raises nothing."""

import numpy as np
import pytest

from analysis.audit.examine import Audit, examine
from analysis.audit.limits import Limits
from analysis.audit.load import load
from tests.analysis.audit.logs import FORMATS, healthy, write_jsonl, write_plain


def audited(path, **limits) -> Audit:
    return examine(load([path]), Limits(**limits))


def found(audit: Audit) -> dict[str, str]:
    """Check -> severity, of what is more than information."""
    return {one.check: one.severity for one in audit.findings if one.severity != "info"}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_twenty_healthy_logs_raise_nothing(tmp_path, form, seed):
    audit = audited(FORMATS[form](tmp_path, healthy(100 * seed + len(form))), lag_bound=6)
    assert found(audit) == {}
    assert "nothing is wrong" in audit.verdict.lower()
    assert audit.asked >= 9


def test_many_healthy_runs_of_the_widest_format_raise_nothing(tmp_path):
    for seed in range(200, 212):
        assert found(audited(write_plain(tmp_path, healthy(seed)))) == {}, seed


def faulty(seed: int = 7, **changed) -> dict[str, np.ndarray]:
    return healthy(seed) | changed


TIME = np.arange(120)


@pytest.mark.parametrize("form", ["verl", "prime-rl", "skyrl", "plain"])
def test_a_lag_that_creeps_up_is_found_in_every_format_that_logs_one(tmp_path, form):
    series = faulty(lag_mean=1 + 0.05 * TIME + np.random.default_rng(0).normal(scale=0.2, size=120))
    audit = audited(FORMATS[form](tmp_path, series))
    assert "lag creeps up" in found(audit)
    finding = next(one for one in audit.findings if one.check == "lag creeps up")
    assert finding.evidence["late_versions"] > finding.evidence["early_versions"] + 2
    assert finding.change == audit.log.system.changes.lag


def test_filling_the_pipeline_is_no_creeping(tmp_path):
    series = faulty(lag_mean=8 * (1 - np.exp(-TIME / 5)))
    assert "lag creeps up" not in found(audited(write_plain(tmp_path, series)))


@pytest.mark.parametrize(
    ("changed", "check", "severity"),
    [
        ({"ess": np.linspace(0.95, 0.05, 120)}, "effective sample size", "warning"),
        ({"ess": np.full(120, 0.05)}, "effective sample size", "problem"),
        ({"kl_k1": np.full(120, 0.8), "kl_k3": np.full(120, 0.8)}, "divergence", "problem"),
        ({"prob_correlation": np.full(120, 0.6)}, "engine mismatch", "problem"),
        ({"kl_engine": np.full(120, 0.03)}, "engine mismatch", "warning"),
        ({"clip_fraction": np.linspace(0.01, 0.18, 120)}, "clipped and masked", "warning"),
        ({"masked_fraction": np.full(120, 0.6)}, "clipped and masked", "problem"),
        ({"trainer_wait_s": np.full(120, 25.0)}, "idle", "warning"),
        ({"engine_wait_s": np.full(120, 55.0)}, "idle", "problem"),
        ({"zero_variance_share": np.full(120, 0.95)}, "groups without a signal", "problem"),
        ({"truncated_share": np.full(120, 0.3)}, "truncated", "warning"),
        ({"response_length_generated_mean": np.full(120, 1354.0)}, "length bias", "problem"),
        ({"dropped_share": np.full(120, 0.2)}, "dropped", "warning"),
        ({"reward_mean": np.zeros(120)}, "constant reward", "problem"),
        ({"ratio_mean": np.full(120, 1.3)}, "mean ratio", "warning"),
        ({"violations": (TIME % 10 == 0).astype(float)}, "lag beyond the bound", "warning"),
        ({"refused": (TIME == 50).astype(float)}, "numbers", "problem"),
    ],
)
def test_each_fault_is_found_by_its_name(tmp_path, changed, check, severity):
    assert found(audited(write_plain(tmp_path, faulty(**changed)))).get(check) == severity


def test_lags_beyond_the_bound_are_counted(tmp_path):
    series = faulty()
    series["lag_max"][40] = 9.0
    audit = audited(write_plain(tmp_path, series), lag_bound=6)
    finding = next(one for one in audit.findings if one.check == "lag beyond the bound")
    assert finding.severity == "problem"
    assert finding.where == (41, 41)
    assert finding.evidence["worst_versions"] == 9
    assert "lag beyond the bound" in {one.check for one in examine(audit.log).not_asked}


def test_collapse_and_its_signs(tmp_path):
    series = faulty()
    fall = TIME >= 80
    series["reward_mean"][fall] *= 0.3
    series["entropy"][fall] *= 0.1
    series["grad_norm"][80] *= 200
    audit = audited(write_plain(tmp_path, series))
    assert found(audit)["collapse"] == "problem"
    assert found(audit)["gradient spikes"] == "warning"
    collapse = next(one for one in audit.findings if one.check == "collapse")
    assert 78 <= collapse.evidence["fell_at_update"] <= 84


def test_entropy_that_falls_with_the_reward_is_a_warning_before_collapse(tmp_path):
    series = faulty(
        entropy=np.linspace(1.0, 0.1, 120), reward_mean=0.6 - 0.3 * np.abs(TIME - 40) / 80 * (TIME > 40)
    )
    assert found(audited(write_plain(tmp_path, series))).get("entropy and reward fall") == "warning"


def test_a_policy_that_gets_certain_and_better_is_no_warning(tmp_path):
    series = faulty(entropy=np.linspace(1.0, 0.1, 120))
    assert found(audited(write_plain(tmp_path, series))) == {}


def test_rewards_below_zero_do_not_collapse_by_being_negative(tmp_path):
    series = faulty(reward_mean=-1 + 0.8 * (1 - np.exp(-TIME / 40)))
    assert "collapse" not in found(audited(write_plain(tmp_path, series)))


def test_a_counter_that_goes_back(tmp_path):
    records = [{"step": step, "version": step, "reward_mean": 0.5 + 0.001 * step} for step in range(30)]
    again = [{"step": step, "version": 0, "reward_mean": 0.6} for step in range(20, 40)]
    audit = audited(write_jsonl(tmp_path / "log.jsonl", records + again))
    resets = [one for one in audit.findings if one.check == "counter reset"]
    assert [(one.severity, one.evidence["before"], one.evidence["after"]) for one in resets] == [
        ("problem", 29, 0),
        ("warning", 29, 20),
    ]
    # What a resumed run writes again is not a duplicate, and the later value is the one that counts.
    assert "duplicates" not in found(audit)
    assert audit.log.updates.set_index("update")["reward_mean"][25] == 0.6


def test_values_that_are_logged_twice_and_differ(tmp_path):
    records = [{"step": step, "reward_mean": 0.5} for step in range(20)]
    records.insert(11, {"step": 10, "reward_mean": 0.7})
    audit = audited(write_jsonl(tmp_path / "log.jsonl", records))
    finding = next(one for one in audit.findings if one.check == "duplicates")
    assert finding.evidence["values"] == 1
    assert finding.where == (10, 10)


def test_nan_that_was_recorded_is_a_problem_and_an_empty_cell_is_none(tmp_path):
    (tmp_path / "holes.csv").write_text("step,loss,grad_norm\n" + "1,,0.5\n2,0.1,\n" * 20)
    (tmp_path / "nan.csv").write_text("step,loss,grad_norm\n1,0.1,0.5\n2,NaN,0.5\n3,0.1,inf\n")
    assert "numbers" not in found(audited(tmp_path / "holes.csv"))
    audit = audited(tmp_path / "nan.csv")
    assert {one.what.split()[0]: one.where for one in audit.findings if one.check == "numbers"} == {
        "loss": (2, 2),
        "grad_norm": (3, 3),
    }


def test_a_question_that_cannot_be_asked_names_the_field_in_both_words(tmp_path):
    series = healthy(3)
    del series["ess"]
    audit = audited(FORMATS["verl"](tmp_path, series))
    lacking = {one.check: one.missing for one in audit.not_asked}
    assert lacking["effective sample size"] == "ess (rollout_corr/rollout_is_eff_sample_size)"
