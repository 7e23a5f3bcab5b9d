"""A built wheel works away from the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed wheel and nothing of the checkout."""
    place = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    name = subprocess.run(
        [sys.executable, "-c", build, str(place)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()[-1]
    with zipfile.ZipFile(place / name) as wheel:
        wheel.extractall(place / "site")
    return place / "site"


def run_installed(site: Path, *words: str) -> str:
    code = (
        "import sys, policylag, simulator; "
        "assert policylag.__file__.startswith(sys.argv[1]), policylag.__file__; "
        "assert simulator.__file__.startswith(sys.argv[1]), simulator.__file__; "
        "sys.exit(policylag.main(sys.argv[2:]))"
    )
    env = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(site), *words],
        cwd=site.parent, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_the_product_and_no_tests(site: Path) -> None:
    tops = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"algorithms", "simulator", "analysis", "full_runs", "policylag.py"}


def test_the_wheel_runs(site: Path) -> None:
    assert "simulate" in run_installed(site, "--help")
    words = ("simulate", "--slots=32", "--rollouts-per-update=16", "--updates=8", "--json", "--out=run")
    assert json.loads(run_installed(site, *words))["updates"] == 8
    meta = json.loads((site.parent / "run" / "meta.json").read_text())
    assert meta["git_revision"] is None


def test_an_environment_beside_this_one_can_be_built_with_what_is_here() -> None:
    """`make setup-full` builds without isolation: whatever the build asks for is installed already."""
    code = (
        "from hatchling.build import get_requires_for_build_editable as asked; "
        "from importlib.metadata import version; from packaging.requirements import Requirement as R; "
        "print([r for r in map(R, asked()) if version(r.name) not in r.specifier])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
