"""What a selection is told of the rest of the pipeline, against a scan of everything that is not queued."""

import contextlib
import dataclasses

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import Pipeline, drawn_lengths
from simulator.pipeline.workload import DrawnWorkload
from simulator.rules import selection
from simulator.rules.admission import always
from simulator.rules.eviction import drop_by_age
from simulator.rules.staleness import Staleness
from simulator.stalled import StalledError
from simulator.world.amounts import Amount
from simulator.world.decoding import FixedSpeed
from simulator.world.episodes import MultiTurn
from simulator.world.failures import Failures
from simulator.world.lengths import Exponential
from tests.simulator.pipeline.test_combinations import pipelines, rules


def scanned(pipeline):
    """The oldest version and the groups of all that started, for training, and is in no queue."""
    table, door = pipeline.table, pipeline.door
    ids = pipeline.fleet.running() + pipeline.buffer.not_queued()
    places = [table.place[i] for i in ids] + [place for place, _ in door.again]
    places += [one.place for one in door.returning]
    oldest = min(map(table.oldest_version, ids), default=None)
    return oldest, sorted({place // table.group_size for place in places})


def waits_a_while(inner):
    """Refuses most questions, so that many are asked while a batch is there; fewer, the more it holds."""

    def select(candidates, take):
        if len(candidates) % 5 and len(candidates) < 12:
            return None
        return inner(candidates, take)

    return select


def watched(pipeline, asked):
    inner = pipeline.buffer.selection

    def select(candidates, take):
        oldest, groups = scanned(pipeline)
        assert take.oldest_running_version == oldest
        assert list(take.unfinished_indices) == groups
        age_limit, table, queue = pipeline.buffer.age_limit, pipeline.table, pipeline.buffer.queue
        assert [c.submitted_index for c in candidates] == [
            table.place[g[0]] // table.group_size for g in queue
        ]
        for candidate, group in zip(candidates, queue, strict=True):
            lags = [take.version - table.oldest_version(i) for i in group]
            assert not age_limit(max(lags))
            assert candidate.oldest_version == take.version - max(lags)
            assert candidate.newest_version == max(table.segments(i)[-1].version for i in group)
        asked.append(take.version)
        return inner(candidates, take)

    pipeline.buffer.selection = select


def checked(config, rule):
    workload = DrawnWorkload(drawn_lengths(config))
    pipeline = Pipeline(simpy.Environment(), config, workload, rule=rule)
    asked = []
    watched(pipeline, asked)
    with contextlib.suppress(StalledError):
        pipeline.run(until_s=400.0)
    return asked


@settings(deadline=None, max_examples=120)
@given(pipelines(), rules())
def test_a_selection_is_told_what_a_scan_would_find(config, rule):
    checked(config, dataclasses.replace(rule, selection=waits_a_while(selection.oldest_weights_first)))


@settings(deadline=None, max_examples=60)
@given(
    pipelines(), rules(), st.sampled_from(["drop", "retry", "pad"]), st.sampled_from(["restart", "resume"])
)
def test_whatever_fails(config, rule, incomplete, after_crash):
    failures = Failures(
        engine_crash_every_s=40.0,
        engine_restart_s=3.0,
        after_crash=after_crash,
        environment_failure_probability=0.2,
        incomplete_group=incomplete,
        group_deadline_s=25.0,
    )
    config = config.model_copy(update={"failures": failures, "stall_limit_s": 500.0})
    checked(config, dataclasses.replace(rule, selection=waits_a_while(selection.freshest_first)))


@pytest.mark.parametrize("crashes_s", [None, 30.0])
@pytest.mark.parametrize("replacement", ["new_prompt", "same_prompt"])
def test_with_environments(crashes_s, replacement):
    config = PipelineConfig(
        slots=6,
        engines=2,
        engine=FixedSpeed(seconds_per_token=0.25),
        group_size=2,
        rollouts_per_update=4,
        updates=25,
        policy_update_s=2.0,
        push_s=0.3,
        lengths=Exponential(mean_tokens=5, max_tokens=20),
        episode=MultiTurn(
            mean_turns=2, observation_tokens=Amount(mean=3), latency_s=Amount(mean=2, law="lognormal", cv=1)
        ),
        environment_start_s=Amount(mean=4, law="lognormal", cv=1),
        environments=9,
        failures=Failures(engine_crash_every_s=crashes_s, engine_restart_s=2.0, after_crash="resume"),
    )
    rule = Staleness(
        admission=always,
        selection=waits_a_while(selection.oldest_submitted_first),
        age_limit=drop_by_age(3),
        abort=drop_by_age(3),
        replacement=replacement,
    )
    assert len(checked(config, rule)) > 25
