"""The pipeline against its slow-witted twin: the same rows."""

import itertools

import pytest

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import drawn_lengths, run
from simulator.world.lengths import DeepSeekR1, Exponential, LogNormal
from tests.simulator import twin


@pytest.mark.parametrize(
    "law", [DeepSeekR1(), Exponential(mean_tokens=300), LogNormal(mean_tokens=90, sd_tokens=200)]
)
@pytest.mark.parametrize(
    ("slots", "group_size", "update_s"), [(32, 1, 4.0), (32, 4, 4.0), (8, 8, 9.1), (64, 1, 0.0)]
)
def test_the_twin_records_the_same_rows(law, slots, group_size, update_s):
    config = PipelineConfig(
        slots=slots,
        group_size=group_size,
        rollouts_per_update=16,
        updates=80,
        policy_update_s=update_s,
        push_s=0.7,
        lengths=law,
        seed=11,
    )
    lengths = drawn_lengths(config)
    rollouts, segments, updates = twin.simulate(
        (lengths.length_tokens(*divmod(i, group_size)) for i in itertools.count()),
        slots=slots,
        seconds_per_token=config.engine.seconds_per_token,
        group_size=group_size,
        rollouts_per_update=config.rollouts_per_update,
        updates=config.updates,
        update_s=config.policy_update_s,
        push_s=config.push_s,
    )
    log = run(config).log
    ours = [tuple(row.values()) for row in log.rollouts.to_pylist() if row["status"] == "trained"]
    assert ours == [(*row[:4], 0, *row[5:]) for row in rollouts]
    ids = {row[0] for row in rollouts}
    assert sorted(
        tuple(row.values()) for row in log.segments.to_pylist() if row["rollout_id"] in ids
    ) == sorted(row for row in segments if row[0] in ids)
    # the twin takes the push off again to know when training ended, so the last digits differ
    for row, theirs in zip(log.updates.to_pylist(), updates, strict=True):
        assert tuple(row.values()) == pytest.approx(theirs)
