"""Faults that only single rollouts and their tokens show."""

import math

import numpy as np
import pytest

from analysis.audit.examine import examine
from analysis.audit.load import load
from tests.analysis.audit.logs import write_jsonl


def findings(records, tmp_path):
    return {one.check: one for one in examine(load([write_jsonl(tmp_path / "r.jsonl", records)])).findings}


def token_records(rng, *, rollouts=60, tokens=40, temperature=1.0, noise=0.01, lag=0):
    """Tokens drawn from softmax(logits / T) and recorded so; the trainer's are of softmax(logits)."""
    records = []
    for i in range(rollouts):
        logits = rng.normal(scale=2.0, size=(tokens, 50))
        sampled = _log_softmax(logits / temperature)
        chosen = (sampled + rng.gumbel(size=sampled.shape)).argmax(axis=1)
        behaviour = sampled[np.arange(tokens), chosen]
        trainer = _log_softmax(logits)[np.arange(tokens), chosen] + rng.normal(scale=noise, size=tokens)
        records.append(
            {
                "step": 1 + i // 8,
                "rollout_id": i,
                "lag": lag,
                "rollout_log_probs": behaviour.tolist(),
                "old_log_probs": trainer.tolist(),
                "response_mask": [1] * tokens,
            }
        )
    return records


def _log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_a_wrong_temperature_is_a_slope_that_is_not_one(tmp_path, temperature):
    finding = findings(token_records(np.random.default_rng(0), temperature=temperature), tmp_path)[
        "temperature"
    ]
    assert finding.evidence["slope"] == pytest.approx(1 / temperature, rel=0.15)


@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_noise_between_engine_and_trainer_is_no_temperature(tmp_path, noise):
    assert "temperature" not in findings(token_records(np.random.default_rng(1), noise=noise), tmp_path)


def test_engine_mismatch_at_lag_zero_is_what_the_noise_makes_it(tmp_path):
    """For noise of variance s^2, r - 1 - log r is e^{s^2 / 2} - 1 on average."""
    records = token_records(np.random.default_rng(2), rollouts=200, noise=0.3, lag=0)
    finding = findings(records, tmp_path)["engine mismatch"]
    assert next(iter(finding.evidence.values())) == pytest.approx(math.expm1(0.3**2 / 2), rel=0.05)
    assert finding.severity == "warning"


def test_drift_with_a_direction_is_told_from_drift_that_wanders(tmp_path):
    rng = np.random.default_rng(3)

    def aged(exponent):
        records = []
        for lag in (0, 1, 2, 4, 8, 16):
            variance = 0.01 + 2 * 0.001 * lag**exponent
            records += token_records(rng, rollouts=40, noise=float(np.sqrt(variance)), lag=lag)
        return records

    ballistic = findings(aged(2), tmp_path)["engine or age"]
    assert ballistic.evidence["exponent"] == pytest.approx(2, abs=0.3)
    assert ballistic.severity == "warning"
    diffusive = findings(aged(1), tmp_path)["engine or age"]
    assert diffusive.evidence["exponent"] == pytest.approx(1, abs=0.3)
    assert diffusive.evidence["without_lag"] == pytest.approx(0.005, abs=0.003)
    assert diffusive.severity == "info"


def test_a_reward_on_the_wrong_token(tmp_path):
    def record(i, place):
        rewards = [0.0] * 6
        rewards[place] = 1.0
        return {
            "step": 1,
            "rollout_id": i,
            "token_level_rewards": rewards,
            "response_mask": [1, 1, 1, 1, 0, 0],
        }

    right = [record(i, 3) for i in range(50)]
    assert "reward on the wrong token" not in findings(right, tmp_path)
    wrong = findings(right + [record(50 + i, 5) for i in range(50)], tmp_path)["reward on the wrong token"]
    assert wrong.evidence["share"] == 0.5
    assert wrong.severity == "problem"


def test_a_reward_that_is_one_value_on_every_token_says_nothing(tmp_path):
    records = [
        {"step": 1, "rollout_id": i, "token_level_rewards": [1.0] * 4, "response_mask": [1, 1, 0, 0]}
        for i in range(20)
    ]
    assert "reward on the wrong token" not in findings(records, tmp_path)


def test_dropping_by_age_shortens_what_is_trained(tmp_path):
    rng = np.random.default_rng(4)
    records = []
    for i, length in enumerate(rng.lognormal(6.5, 0.8, size=400)):
        status = "dropped" if length > 1000 else "trained"
        records.append(
            {"step": 1 + i // 20, "rollout_id": i, "status": status, "response_length": float(length)}
        )
    bias = findings(records, tmp_path)["length bias"]
    kept = np.mean([one["response_length"] for one in records if one["status"] == "trained"])
    assert bias.evidence["trained_mean"] == pytest.approx(kept, rel=0.1)
    assert bias.severity == "problem"


def test_groups_are_of_one_prompt_in_one_update(tmp_path):
    def record(step, prompt, score, text):
        return {"input": prompt, "output": text, "gts": "1", "score": score, "step": step}

    records = [
        record(step, prompt, score=float(prompt == "b" and i % 2), text=f"{step} {prompt} {i}")
        for step in range(20)
        for prompt in ("a", "b")
        for i in range(4)
    ]
    log = load([write_jsonl(tmp_path / "r.jsonl", records)])
    assert log.system.name == "verl"
    assert log.updates["zero_variance_share"].tolist() == [0.5] * 20
    assert log.updates["reward_mean"].tolist() == [0.25] * 20


def test_rollouts_that_were_trained_before_and_copies_within_an_update(tmp_path):
    def record(step, text):
        return {"input": "p", "output": text, "score": 1.0, "step": step}

    once = [record(step, f"{step} {i}") for step in range(10) for i in range(8)]
    assert "duplicates" not in findings(once, tmp_path)
    again = findings(once + [record(20, f"{step} 0") for step in range(10)], tmp_path)["duplicates"]
    assert again.evidence["share"] == pytest.approx(10 / 90)
    copies = findings([record(step, f"{step}") for step in range(10) for _ in range(8)], tmp_path)[
        "duplicates"
    ]
    assert copies.evidence["share"] == pytest.approx(7 / 8)


def test_ratios_of_e_to_the_hundred_and_nan_outside_the_mask_are_ordinary(tmp_path):
    record = {
        "rollout_id": 1,
        "step": 1,
        "rollout_log_probs": [-100.0, -1.0, None],
        "old_log_probs": [0.0, -1.0, -3.0],
        "response_mask": [1, 1, 0],
    }
    log = load([write_jsonl(tmp_path / "r.jsonl", [record])])
    row = log.tokens.iloc[0]
    assert row["tokens"] == 2
    assert row["r"] == pytest.approx(np.exp(20) + 1)
    assert log.strange.tokens_not_finite == 0
