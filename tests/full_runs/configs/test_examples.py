"""The examples for clusters ask for what the configuration is planned for; a cluster has not seen them."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import full_runs
from full_runs.configs.ready import READY
from full_runs.engine.launch import ServerOptions, command

FOLDER = Path(full_runs.__file__).parent / "configs" / "examples"
NAME = "qwen3-30b-a3b-32gpu"
CONFIG = READY[NAME]()
SLURM = (FOLDER / "slurm.sh").read_text()
KUEUE = (FOLDER / "kueue.yaml").read_text()


def kueue_jobs() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the documentation's tools bring")
    jobs = yaml.safe_load(KUEUE)["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"] for job in jobs}


def engine_flags() -> dict[str, str]:
    """What the configuration says of an engine, in vLLM's words."""
    return {
        "--model": str(CONFIG.model),
        "--dtype": CONFIG.precision,
        "--tensor-parallel-size": str(CONFIG.tensor_parallel),
        "--max-model-len": str(CONFIG.longest_tokens),
        "--max-num-seqs": str(CONFIG.in_flight // CONFIG.engines),
        "--gpu-memory-utilization": str(CONFIG.engine_memory),
    }


def test_slurms_script_is_a_script() -> None:
    subprocess.run(["bash", "-n", str(FOLDER / "slurm.sh")], check=True)


def test_slurm_asks_for_the_planned_gpus() -> None:
    nodes, gpus = (int(re.search(rf"#SBATCH --{w}=(\d+)", SLURM)[1]) for w in ("nodes", "gpus-per-node"))
    assert nodes * gpus == CONFIG.gpus
    assert gpus == CONFIG.gpus_per_node
    trainers = int(re.search(r"^TRAINER_NODES=(\d+)", SLURM, re.M)[1])
    ranks = int(re.search(r"--nproc-per-node=(\d+)", SLURM)[1])
    assert trainers * ranks == CONFIG.ranks
    engines = re.search(r"for ENGINE in ([\d ]+);", SLURM)[1].split()
    assert len(engines) == CONFIG.engines
    assert len(engines) * CONFIG.tensor_parallel == (nodes - trainers) * gpus


def test_kueue_asks_for_the_planned_gpus() -> None:
    jobs = kueue_jobs()
    wanted = {"trainer": CONFIG.ranks, "engines": CONFIG.engines * CONFIG.tensor_parallel}
    for name, gpus in wanted.items():
        spec = jobs[name]
        (container,) = spec["template"]["spec"]["containers"]
        assert spec["parallelism"] == spec["completions"]
        assert spec["parallelism"] * container["resources"]["limits"]["nvidia.com/gpu"] == gpus
    args = jobs["trainer"]["template"]["spec"]["containers"][0]["args"]
    assert f"--nnodes={jobs['trainer']['parallelism']}" in args


@pytest.mark.parametrize("text", [SLURM, KUEUE], ids=["slurm", "kueue"])
def test_engines_are_started_as_configured(text: str) -> None:
    spoken = text.replace('"$MODEL"', str(CONFIG.model)).replace("=", " ").split()
    for flag, value in engine_flags().items():
        assert spoken[spoken.index(flag) + 1] == value, flag


@pytest.mark.parametrize("text", [SLURM, KUEUE], ids=["slurm", "kueue"])
def test_engines_get_every_flag_that_the_controller_gives_its_own(text: str) -> None:
    own = command(Path("x"), 1, ServerOptions(max_model_tokens=1, gpus=(0,), prefix_caching=True))
    taste = {"--seed", "--disable-uvicorn-access-log"}
    assert {word for word in own if word.startswith("--")} - taste <= set(re.findall(r"--[a-z-]+", text))


@pytest.mark.parametrize("name", ["slurm.sh", "kueue.yaml", "README.md"])
def test_each_says_that_it_was_never_executed(name: str) -> None:
    said = (FOLDER / name).read_text().lower()
    assert "never executed" in said or "not executed anywhere" in said
    assert NAME in said
