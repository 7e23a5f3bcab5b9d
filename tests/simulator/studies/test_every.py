"""Every study in every size: a grid that can run, claims that can be judged, figures that can be drawn."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import policylag
from analysis.measures.collapse import Criteria
from analysis.measures.outcomes import outcomes
from analysis.pictures.registered import KINDS
from analysis.runs import from_log
from simulator.config import PipelineConfig
from simulator.lab.config import LearnConfig
from simulator.lab.run import learn
from simulator.lab.worlds import (
    BandBitsWorld,
    BigramWorld,
    CarryAdditionWorld,
    ModularAdditionWorld,
    StyleDriftWorld,
    ToolLookupWorld,
)
from simulator.studies.every import STUDIES
from simulator.studies.hypothesis import FITTED
from simulator.studies.plan import Plan, cells, registration
from simulator.world.lengths import LogNormal

EVERY = [(name, size) for name, study in STUDIES.items() for size in study.SIZES]
PLANS = {(name, size): STUDIES[name].plan(STUDIES[name].SIZES[size]) for name, size in EVERY}

_NETWORK = {"width": 8, "depth": 1, "heads": 1, "warm_start_accuracy": 1e-6, "evaluate_every": 2}
SMALLEST: dict[str, Any] = {
    "modular_addition": ModularAdditionWorld(questions=2, hidden=4),
    "band_bits": BandBitsWorld(bits=8),
    "bigram": BigramWorld(vocabulary=2, length=2),
    "carry_addition": CarryAdditionWorld(most_digits=1, **_NETWORK),
    "tool_lookup": ToolLookupWorld(most_turns=2, **_NETWORK),
    "style_drift": StyleDriftWorld(**_NETWORK),
}


def of_every_plan() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("plan", PLANS.values(), ids=["-".join(key) for key in PLANS])


@of_every_plan()
def test_every_arm_runs_the_same_seeds_and_no_run_is_there_twice(plan: Plan) -> None:
    grid = cells(plan)
    seeds = list(range(plan.first_seed, plan.first_seed + plan.seeds))
    for arm in plan.arms:
        assert [cell.seed for cell in grid if cell.arm == arm] == seeds
    assert len({cell.key for cell in grid}) == len(grid), "two arms run the same thing"
    assert len({cell.name.casefold() for cell in grid}) == len(grid)
    assert max(len(cell.name) for cell in grid) < 200  # a folder's name has at most 255 bytes
    assert json.loads(json.dumps(registration(plan)))["arms"] == list(plan.arms)


@of_every_plan()
def test_claims_and_factors_are_of_its_arms(plan: Plan) -> None:
    assert plan.hypotheses
    for claim in plan.hypotheses:
        named = {claim.better_arm, claim.worse_arm, *claim.arms} - {None}
        assert named <= set(plan.arms)
    assert set(plan.factors) in (set(), set(plan.arms))


@of_every_plan()
def test_pictures_can_be_drawn_and_criteria_are_criteria(plan: Plan) -> None:
    Criteria(**plan.criteria)
    for picture in plan.pictures:
        options = {name: value for name, value in picture.items() if name != "kind"}
        draw = KINDS[picture["kind"]]
        inspect.signature(draw).bind("study", "rng", "name", **options)
        chosen = list(plan.factors.values())
        for factor, wanted in picture.get("where", {}).items():
            values = wanted if isinstance(wanted, list | tuple) else [wanted]
            chosen = [settings for settings in chosen if settings.get(factor) in values]
        assert chosen, picture
        if picture["kind"] in ("heat_map", "score_by_factor"):
            for axis in ("x", "y", "factor", "line"):
                assert picture.get(axis) is None or all(picture[axis] in settings for settings in chosen)


def smallest(config: LearnConfig) -> LearnConfig:
    """The same estimator in the smallest world of the same kind, for four updates."""
    few = {"slots": 8, "engines": 1, "rollouts_per_update": 8, "updates": 4, "updates_per_batch": 1}
    few |= {"group_size": min(config.pipeline.group_size, 4), "environments": None}
    kept = ("critic_updates", "critic_update_s", "seed", "episode", "environment_start_s", "reward_s")
    pipeline = PipelineConfig.model_validate(
        {name: getattr(config.pipeline, name) for name in kept}
        | few
        | {"lengths": LogNormal(mean_tokens=9, sd_tokens=3)}
    )
    changed = {"pipeline": pipeline, "world": SMALLEST[config.world.kind], "value_pretraining_rollouts": 0}
    return config.model_copy(update=changed)


def measured(plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[set[str]]:
    """Names of the outcomes of one tiny run of each world of a study."""
    monkeypatch.setenv("POLICYLAG_CACHE", str(tmp_path))
    worlds = {}
    for configure in plan.arms.values():
        config = configure(plan.first_seed)
        worlds.setdefault(config.world.kind, config)
    found = []
    criteria = Criteria(**{**plan.criteria, "metric": plan.criteria.get("metric", "accuracy")})
    if criteria.shift_updates:
        criteria = dataclasses.replace(criteria, shift_updates=(1, 2))
    for config in worlds.values():
        log = learn(smallest(config)).log
        assert criteria.metric in log.updates.column_names
        found.append(set(outcomes(from_log(log, arm="a", seed=0, clock="simulated"), criteria)))
    return found


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.filterwarnings("ignore:no advantage in any of")
def test_a_claim_is_about_something_that_is_measured(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = PLANS[name, "small"]
    known = measured(plan, monkeypatch, tmp_path)
    for claim, outcome in itertools.product(plan.hypotheses, known):
        assert claim.metric in (FITTED if claim.kind == "fitted" else outcome), claim.id


@pytest.mark.parametrize(
    "words",
    [["law", "--lags", "0", "2", "--learning-rates", "1e-3", "4e-3"], ["clipping", "--only", "*lag64"]],
    ids=["law", "part of clipping"],
)
def test_a_tiny_study_is_run_judged_and_run_no_more(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["study", *words, "--seeds=1", "--updates=4", "--jobs=1", f"--out={tmp_path}"]
    assert policylag.main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    registered = json.loads((tmp_path / "study.json").read_text())
    assert len(found["claims"]) == len(registered["hypotheses"])
    runs = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cells/*/meta.json")}
    assert runs
    page = (tmp_path / "report.html").read_text()
    assert policylag.main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text() == page
    assert policylag.main([*command, "--quiet"]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("cells/*/meta.json")} == runs
