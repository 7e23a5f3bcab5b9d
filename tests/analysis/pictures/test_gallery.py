"""Every kind of figure, drawn from runs that were really made: none is dead."""

import dataclasses

import numpy as np
import pytest

from analysis.measures.collapse import Criteria
from analysis.pictures.registered import KINDS, picture
from analysis.runs import from_log
from analysis.study import Study, summarise
from analysis.tables.factors import NothingToShowError
from simulator.experiments import groups, single
from simulator.lab.run import learn
from simulator.pipeline.pipeline import run as simulate
from simulator.studies.runs import imposed

OF_PIPELINES = ("lag_parts", "lag_against_load", "frontier", "length_bias")
OPTIONS = {kind: {"x": "lag", "y": "estimator"} for kind in ("heat_map", "masks")}
CRITERIA = Criteria(
    target=0.7, chance=0.1, collapse_window_updates=3, shift_updates=(6,), alarm_window_updates=3
)


@pytest.fixture(scope="module")
def learned() -> Study:
    """GRPO with a mask and SAO, data 1 and 4 updates old."""
    runs, factors = [], {}
    for estimator in ("grpo_dis", "sao"):
        for lag in (1, 4):
            arm = f"{estimator}-{lag}"
            factors[arm] = {"estimator": estimator, "lag": lag, "learning_rate": 4e-3}
            for seed in range(2):
                config = imposed(estimator, seed=seed, lag_updates=lag, updates=12, learning_rate=4e-3)
                runs.append(from_log(learn(config).log, arm=arm, seed=seed, clock="imposed"))
    return summarise(runs, CRITERIA, factors=factors)


@pytest.fixture(scope="module")
def timed() -> Study:
    """Groups and single rollouts, which only keep time."""
    small = {"slots": 64, "engines": 4, "rollouts_per_update": 16, "updates": 40}
    made = {"groups": groups(**small), "single": single(**small)}
    return summarise(
        [
            dataclasses.replace(
                from_log(simulate(config).log, arm=arm, seed=0, clock="simulated"),
                config=config.model_dump(mode="json"),
            )
            for arm, config in made.items()
        ],
        CRITERIA,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_from_real_runs(kind, learned, timed):
    study = timed if kind in OF_PIPELINES else learned

    def drawn():
        return picture(kind, OPTIONS.get(kind, {}), study, np.random.default_rng(0), name=kind)

    if kind == "collapse_times" and not learned.outcomes["collapsed"].any():
        with pytest.raises(NothingToShowError):
            drawn()
        return
    for shown in drawn():
        assert shown.drawing.svg().startswith("<svg")
        assert "nan" not in shown.alt + shown.caption
