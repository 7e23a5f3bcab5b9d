"""The examples for clusters ask for what the configuration is planned for; a cluster has not seen them."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import full_runs
from analysis.report.possible import must_be_possible
from full_runs.command import ask
from full_runs.configs.ready import READY
from full_runs.engine.launch import ServerOptions, command
from full_runs.plan.missing import missing
from simulator.studies.own import claims, read

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
    assert trainers == CONFIG.trainer_nodes
    engines = re.search(r"for ENGINE in ([\d ]+);", SLURM)[1].split()
    assert len(engines) == CONFIG.engines
    assert len(engines) * CONFIG.tensor_parallel == (nodes - trainers) * gpus


def test_kueue_asks_for_the_planned_gpus() -> None:
    jobs = kueue_jobs()
    a_node = CONFIG.ranks // CONFIG.trainer_nodes
    wanted = {
        "controller": a_node,
        "joined": CONFIG.ranks - a_node,
        "engines": CONFIG.engines * CONFIG.tensor_parallel,
    }
    assert jobs.keys() == wanted.keys()
    for name, gpus in wanted.items():
        (container,) = jobs[name]["template"]["spec"]["containers"]
        pods = jobs[name].get("parallelism", 1)
        assert pods == jobs[name].get("completions", 1)
        assert pods * container["resources"]["limits"]["nvidia.com/gpu"] == gpus


def controllers_words(text: str) -> list[str]:
    """After `policylag full`, in the command that is no dry run, as a shell would part them."""
    (found,) = re.findall(r"policylag full (?:\S+) (--out .*?--engine-api-key-variable \w+)", text, re.S)
    return shlex.split(found.replace("\\\n", " "))


def test_the_controllers_settings_are_possible(tmp_path: Path) -> None:
    """Read as `policylag full` reads them, with host names in place of SLURM's variables."""
    urls = [f"http://node-3:{8000 + engine}" for engine in range(4)]
    slurm = " ".join(controllers_words(SLURM)).replace("${URLS[@]}", " ".join(urls))
    spoken = slurm.replace("${HOSTS[0]}", "node-0").replace("$OUT", str(tmp_path / "s")).split()
    kueue = " ".join(controllers_words(KUEUE)).replace("/shared/run", str(tmp_path / "k")).split()
    for words in (spoken, kueue):
        config = ask([NAME, *words]).config
        assert len(config.engine_urls) == len(set(config.engine_urls)) == CONFIG.engines
        assert missing(config, seen=lambda: 8, vllm=lambda: "vllm", variables={"VLLM_API_KEY": "x"}) == []
    assert 'URLS+=("http://$ENGINES:$((8000 + ENGINE))")' in SLURM


def test_kueues_addresses_are_those_of_its_pods() -> None:
    """JobSet names a pod JOBSET-JOB-REPLICA-INDEX, in the domain of the JobSet."""
    jobs = kueue_jobs()
    pods = {
        f"policylag-{name}-0-{index}.policylag"
        for name, spec in jobs.items()
        for index in range(spec.get("parallelism", 1))
    }
    words = controllers_words(KUEUE)
    named = [re.sub(r"^http://|:\d+$", "", word) for word in words if ".policylag:" in word]
    assert len(named) == 1 + CONFIG.engines
    assert set(named) <= pods


@pytest.mark.parametrize("text", [SLURM, KUEUE], ids=["slurm", "kueue"])
def test_nodes_join_the_folder_of_the_run(text: str) -> None:
    (folder,) = re.findall(r"full_runs.trainer.join --folder (\S+)", text)
    out = controllers_words(text)[1]
    assert folder.strip('"') == f"{out}/trainer"


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


def test_the_registered_claims_can_be_judged() -> None:
    own = read(FOLDER / "freshness.toml").own
    found = claims(own)
    assert [claim.id for claim in found] == ["R1", "R2", "R3"]
    assert {arm for claim in found for arm in (claim.better_arm, claim.worse_arm)} == {
        "sao", "reinforce-pp", "grpo-dis",
    }  # fmt: skip
    must_be_possible(own.criteria, found, own.pictures)
