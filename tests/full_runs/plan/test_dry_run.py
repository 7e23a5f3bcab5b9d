"""`policylag full CONFIG --dry-run`, and what a machine without GPUs says of such a configuration."""

import importlib
import json
from pathlib import Path

import pytest

import policylag
from full_runs.configs.ready import READY
from full_runs.configs.record import FullConfig
from full_runs.plan.architecture import architecture
from full_runs.plan.fits import refusals
from tests.full_runs.plan.test_architecture import SMALL, as_config

ON_GPUS = [name for name in sorted(READY) if READY[name]().gpus]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert policylag.main(["full", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ON_GPUS)
def test_ready_settings_fit(name: str) -> None:
    config = READY[name]()
    assert config.model is not None
    assert refusals(config, architecture(config.model)) == []


def test_a_plan_starts_nothing_and_says_that_nothing_was_run(
    capsys: pytest.CaptureFixture[str], nowhere: Path
) -> None:
    assert policylag.main(["full", "qwen3-0.6b-1gpu", "--dry-run", "--quiet", "--updates", "8"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "no run on GPUs has been executed" in " ".join(said.out.split())
    assert "596,049,920 parameters" in said.out
    assert list(nowhere.iterdir()) == []


def test_json_is_one_object_of_consistent_numbers(capsys: pytest.CaptureFixture[str], nowhere: Path) -> None:
    assert policylag.main(["full", "qwen3-0.6b-1gpu", "--dry-run", "--json", "--updates", "8"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["executed_on_gpus"] is False
    for one in ("trainer", "engine"):
        assert said[one]["total_bytes"] == pytest.approx(sum(said[one]["bytes"].values()))
        assert said[one]["total_bytes"] <= said[one]["usable_bytes"]
    assert said["trainer_activations_otherwise"] > said["trainer"]["bytes"]["activations"]
    assert said["update_s"] * said["simulated"]["updates_per_hour"]["mean"] == pytest.approx(3600)
    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ranks", "4", "--engines", "4"], ["trainer needs", "on each of 4 ranks", "72.0 GB", "80.0 GB"]),
        (["--in-flight", "4000"], ["2,000 rollouts an engine", "preempt"]),
        (["--engine-memory", "0.2"], ["weights of 16.4 GB", "16.0 GB", "engine_memory (0.2)"]),
        (
            ["--engine-memory", "0.24", "--in-flight", "2"],
            ["a rollout of 9,216 tokens", "does not fit"],
        ),
        (["--precision", "float32"], ["preempt"]),
        (["--no-checkpointed"], ["trainer needs"]),
        (["--gpus", "9"], ["ranks (6)", "8 GPUs", "gpus is 9"]),
        (["--tokens-at-once", "100"], ["tokens_at_once (100)", "max_response_tokens (8192)"]),
        (["--model", "Qwen/Qwen4"], ["Qwen/Qwen4", "Qwen/Qwen3-8B"]),
        (["--model", "None"], ["gpus is 8", "for processors"]),
        (["--gpus", "0"], ["a rollout of 9,216 tokens", "engine_cache_gb (1)"]),
        (["--times-from", "x"], ["times_from (x)", "gpus is 8"]),
        (["--out", "x"], ["out (x)"]),
        (["--tensor-parallel", "3", "--engines", "2", "--gpus", "12"], ["tensor_parallel (3)", "32"]),
        (["world:addition"], ["world is addition"]),
    ],
)
def test_what_cannot_be_is_one_line_with_its_numbers(
    words: list[str], said: list[str], capsys: pytest.CaptureFixture[str], nowhere: Path
) -> None:
    line = refused(["qwen3-8b-8gpu", "--dry-run", *words], capsys)
    assert all(part in line for part in said), line
    assert list(nowhere.iterdir()) == []


def test_a_folder_with_a_model_of_a_few_numbers_is_refused(
    capsys: pytest.CaptureFixture[str], nowhere: Path
) -> None:
    (nowhere / "config.json").write_text(json.dumps(as_config(SMALL)))
    line = refused(["qwen3-0.6b-1gpu", "--dry-run", "--model", str(nowhere)], capsys)
    assert f"{SMALL.total:,} parameters" in line


@pytest.mark.parametrize("name", ON_GPUS)
def test_a_machine_without_gpus_refuses_to_start(
    name: str, capsys: pytest.CaptureFixture[str], nowhere: Path
) -> None:
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    line = refused([name], capsys)
    assert "no GPU is seen here" in line
    assert name in line
    assert list(nowhere.iterdir()) == []


def test_the_configuration_comes_back_from_its_own_json() -> None:
    for make in READY.values():
        assert FullConfig.model_validate_json(make().model_dump_json()) == make()


def test_a_run_that_was_recorded_before_gpus_could_be_named_is_still_read() -> None:
    old = FullConfig().model_dump(mode="json")
    for name in ("model", "gpus", "accelerator", "tensor_parallel", "precision", "tokens_at_once"):
        del old[name]
    assert FullConfig.model_validate(old) == FullConfig()
