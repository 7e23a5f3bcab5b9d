"""Every estimator that a configuration may name runs in the lab, and VAPO says why it does not."""

import math
from typing import get_args

import pytest

from simulator.config import PipelineConfig
from simulator.lab.config import LearnConfig
from simulator.lab.names import CRITICS, SINGLE, EstimatorName
from simulator.lab.run import learn
from simulator.world.decoding import FixedSpeed
from simulator.world.lengths import LogNormal


def smallest(name: EstimatorName) -> LearnConfig:
    critic = {"critic_updates": 1, "critic_update_s": 0.1} if name in CRITICS else {}
    pipeline = PipelineConfig(
        slots=16,
        engine=FixedSpeed(seconds_per_token=0.01),
        group_size=1 if name in SINGLE else 4,
        rollouts_per_update=8,
        updates_per_batch=3,
        updates=3,
        policy_update_s=0.1,
        lengths=LogNormal(mean_tokens=100, sd_tokens=100),
        **critic,
    )
    return LearnConfig(pipeline=pipeline, estimator=name)


@pytest.mark.parametrize("name", [name for name in get_args(EstimatorName) if name != "vapo"])
@pytest.mark.filterwarnings("ignore:no advantage in any of")
def test_three_updates(name: EstimatorName) -> None:
    updates = learn(smallest(name)).log.updates.to_pandas()
    assert len(updates) == 3
    assert (updates["refused"] == 0).all()
    assert updates["loss"].map(math.isfinite).all()
    assert updates["accuracy"].between(0, 1).all()


def test_vapo_as_published_refuses_short_answers() -> None:
    with pytest.raises(ValueError, match=r"alpha = 0.05 .* of 8 action tokens; it needs alpha"):
        learn(smallest("vapo"))
