"""Processors: memory by the same arithmetic, times from a calibration or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import policylag
from full_runs.configs.ready import tiny_cpu
from full_runs.configs.record import FullConfig
from full_runs.plan.processors import plan
from full_runs.plan.trainer_memory import PASSING
from simulator.command_line import BadInputError
from simulator.config import PipelineConfig
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import Fixed
from tests.full_runs.plan.test_architecture import WHY

UPDATE_S = 50.0


@pytest.fixture
def times(tmp_path: Path) -> Path:
    """As `policylag calibrate --out` leaves them: a slow trainer, fast engines, lengths elsewhere."""
    (tmp_path / "lengths.csv").write_text("tokens,prob\n3,0.5\n5,0.5\n")
    fitted = PipelineConfig(
        slots=64, group_size=1, rollouts_per_update=64, updates=1000, prompt_tokens=4,
        lengths=Fixed(tokens=1),
        engine=LoadDependent(step_fixed_s=0.01, step_s_per_rollout=0.0, step_s_per_kv_token=0.0),
        policy_update_s=UPDATE_S, policy_update_s_per_token=0.0, push_s=0.0,
    )  # fmt: skip
    lengths = {
        "kind": "trace",
        "path": "/elsewhere/lengths.csv",
        "column": "tokens",
        "weights_column": "prob",
    }
    (tmp_path / "config.json").write_text(json.dumps(fitted.model_dump(mode="json") | {"lengths": lengths}))
    return tmp_path


def test_the_tiny_models_parameters_are_those_that_it_has() -> None:
    pytest.importorskip("transformers", reason=WHY)
    from full_runs.tasks.games import addition
    from full_runs.tasks.tiny_model import TinyModel, made

    for width, depth, heads in ((64, 2, 4), (128, 3, 1)):
        world = addition(seed=0, most_digits=2)
        sizes = TinyModel(width=width, depth=depth, heads=heads)
        real = made(sizes, vocabulary=world.game.vocabulary, positions=32).num_parameters()
        assert plan(FullConfig(width=width, depth=depth, heads=heads), None).model.total == real


def test_what_lasts_is_shared_by_ranks_and_a_host_holds_its_own() -> None:
    one, two = (plan(tiny_cpu(ranks=ranks, engines=2), None) for ranks in (1, 2))
    lasting = [sum(b for n, b in each.rank_bytes.items() if n not in PASSING) for each in (one, two)]
    assert lasting[0] == pytest.approx(2 * lasting[1])
    engines = 2 * sum(two.engine_bytes.values())
    assert two.here_bytes == pytest.approx(2 * sum(two.rank_bytes.values()) + engines)
    apart = tiny_cpu(
        ranks=2, trainer_nodes=2, engines=2, engine_urls=("http://127.0.0.1:1", "http://127.0.0.1:2")
    )
    assert plan(apart, None).here_bytes == pytest.approx(sum(two.rank_bytes.values()))


def test_an_engines_room_is_its_cache_over_what_a_token_takes() -> None:
    single, half = (plan(tiny_cpu(precision=name), None) for name in ("float32", "bfloat16"))
    # 2 layers, keys and values, 2 heads of 32 numbers, 4 bytes.
    assert single.capacity_tokens == 2**30 // (2 * 2 * 2 * 32 * 4)
    assert half.capacity_tokens == 2 * single.capacity_tokens


def test_smaller_micro_batches_take_less() -> None:
    whole, small = (plan(tiny_cpu(tokens_at_once=tokens), None).rank_bytes for tokens in (None, 20))
    # 64 rollouts of 10 tokens on two ranks.
    assert whole["activations"] == pytest.approx(320 / 20 * small["activations"])


def test_without_times_nothing_is_said_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert policylag.main(["full", "tiny-cpu", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "policylag calibrate RUN --out FOLDER" in said
    assert "updates an hour" not in said
    assert policylag.main(["full", "tiny-cpu", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["simulated"] is None
    assert list(tmp_path.iterdir()) == []


def test_a_slow_trainer_sets_the_pace_and_the_gate_the_lag(
    times: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["full", "tiny-cpu", "--updates", "40", "--dry-run", "--json", "--times-from", str(times)]
    assert policylag.main([*words, "--measure-every", "1000"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["update_s"] == pytest.approx(UPDATE_S, rel=1e-6)
    assert said["simulated"]["trainer_idle"]["mean"] == pytest.approx(0, abs=1e-6)
    # Two batches of bound: data waits for two updates.
    assert 1 <= said["simulated"]["mean_lag_updates"]["mean"] <= 2
    assert policylag.main(words[:-3] + words[-2:]) == 0
    assert "updates an hour" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine-cache-gb", "9000"], ["this cannot fit", "9,6", "this host has"]),
        (["--dry-run", "--times-from", "none"], ["times_from", "none/config.json"]),
        (["--times-from", "."], ["times_from (.)", "dry_run is not given"]),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str], said: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = words if "--times-from" in words else [*words, "--dry-run"]
    assert policylag.main(["full", "tiny-cpu", *given]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert all(part in line for part in said), line


def test_a_host_that_is_too_small_is_named_with_both_sizes() -> None:
    with pytest.raises(BadInputError, match=r"need 1\.1 GB, and this host has 0\.5 GB"):
        plan(tiny_cpu(), None, here=lambda: 5e8)


@pytest.mark.parametrize("text", ["", "{}x", '{"slots": 0}', "[]"])
def test_a_calibration_that_cannot_be_read_is_one_line(times: Path, text: str) -> None:
    (times / "config.json").write_text(text)
    with pytest.raises(BadInputError, match="times_from: ") as refused:
        plan(tiny_cpu(), times)
    assert "\n" not in str(refused.value)


def test_lengths_that_are_gone_are_named(times: Path) -> None:
    (times / "lengths.csv").unlink()
    with pytest.raises(BadInputError, match=r"lengths\.csv is not there"):
        plan(tiny_cpu(), times)


def test_cores_are_planned_where_nobody_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    cores = "--trainer-cores 60000-60003 --engine-cores 9 --controller-cores 8"
    words = ["full", "tiny-cpu", *cores.split(), "--dry-run"]
    assert policylag.main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Cores of ranks: 60000-60001; 60002-60003. Cores of engines: 9." in said
    assert "Cores of the controller: 8." in said
    assert policylag.main([*words, "--json"]) == 0
    wanted = {"ranks": ["60000-60001", "60002-60003"], "engines": ["9"], "controller": ["8"]}
    assert json.loads(capsys.readouterr().out)["cores"] == wanted
    assert policylag.main(["full", "tiny-cpu", "--dry-run"]) == 0
    assert "Cores" not in capsys.readouterr().out
