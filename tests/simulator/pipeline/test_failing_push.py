"""A push that breaks off half-way: timelines on paper, and whatever the rule, no engine is ahead of another.

Two engines of one slot, a token takes a second, a push one. Rollout 0 is taken at 3 and trained until 5.5;
then the push begins. Rollout 1 has engine 1 from 0 on, rollout 2 has engine 0 from 3 on.
"""

import pytest
import simpy

from simulator.pipeline.pipeline import Pipeline, drawn_lengths, run
from simulator.pipeline.workload import DrawnWorkload
from simulator.rules.admission import always
from simulator.rules.on_sync import OnSync
from simulator.rules.staleness import Staleness
from simulator.world.decoding import FixedSpeed
from simulator.world.failures import Failures, Faults
from simulator.world.lengths import Exponential
from tests.simulator.pipeline.test_failing_timelines import life, spells
from tests.simulator.runs import column, config, in_turn


def at_first(*parts):
    """Attempts break off after so many engines; later ones do not."""
    left = list(parts)
    return lambda _engines: left.pop(0) if left else None


def pushed(*parts, retry_s=2.0, updates=2, policy_update_s=2.5, tokens=(3, 11, 7), **on_sync):
    given = config(
        slots=2,
        engines=2,
        push_s=1.0,
        policy_update_s=policy_update_s,
        updates=updates,
        failures=Failures(push_retry_s=retry_s),
    )
    rule = Staleness(admission=always, on_sync=OnSync(**on_sync))
    return run(given, in_turn(*tokens), rule=rule, faults=Faults(push_breaks_off=at_first(*parts)))


def versions(result, rollout_id):
    start_s, end_s, parts = life(result, rollout_id)
    return start_s, end_s, [(version, tokens) for version, tokens, _, _ in parts]


def test_no_version_moves_until_all_engines_have_it():
    result = pushed(1, running="keep", pauses_engines=False)
    # half of the engines take half of the second; from 6 the trainer waits 2 s, and then pushes to all
    assert spells(result, "trainer")[:5] == [
        ("no_batch", 0, 3),
        ("policy_update", 3, 5.5),
        ("push", 5.5, 6),
        ("push_failed", 6, 8),
        ("push", 8, 9),
    ]
    assert column(result, "updates", "published_s")[0] == 9
    assert versions(result, 1) == (0, 11, [(0, 9), (1, 2)])
    assert versions(result, 2) == (3, 10, [(0, 6), (1, 1)])
    assert result.failures == {"push_failures": 1}
    assert result.ledger.rollouts["dropped"] == 0


def test_a_push_may_fail_at_once_and_more_than_once():
    result = pushed(0, 1, 0, running="keep", pauses_engines=False)
    # 5.5: nothing sent; 7.5 to 8: one engine; 10: nothing sent; 12 to 13: both
    assert column(result, "updates", "published_s")[0] == 13
    assert versions(result, 1) == (0, 11, [(0, 11)])
    assert result.failures == {"push_failures": 3}


def test_engines_that_stand_still_for_a_push_stand_still_until_one_succeeds():
    result = pushed(1, running="keep", pauses_engines=True)
    assert ("sync", 5.5, 9) in spells(result, "engine-0/slot-0")
    assert ("sync", 5.5, 9) in spells(result, "engine-1/slot-0")
    assert versions(result, 1) == (0, 14.5, [(0, 6), (1, 5)])
    assert versions(result, 2) == (3, 13.5, [(0, 3), (1, 4)])
    assert result.ledger.rollouts["dropped"] == 0


def test_drained_engines_wait_empty_for_the_next_attempt():
    result = pushed(1, running="drain", tokens=(3, 7, 4, 4))
    # both are empty at 7; half a second of the push, two of waiting, and a whole push
    assert column(result, "updates", "published_s")[0] == 10.5
    assert versions(result, 1) == (0, 7, [(0, 7)])
    assert versions(result, 3) == (10.5, 14.5, [(1, 4)])


def test_one_engine_after_another_goes_on_with_those_that_are_left():
    result = pushed(1, running="keep", engines="rolling", pauses_engines=True)
    # engine 0 loads from 5.5 to 6.5; from 8.5 engine 1 does, until 9.5
    assert ("sync", 5.5, 6.5) in spells(result, "engine-0/slot-0")
    assert ("sync", 8.5, 9.5) in spells(result, "engine-1/slot-0")
    assert versions(result, 2) == (3, 11, [(0, 3), (1, 4)])
    assert versions(result, 1) == (0, 12, [(0, 9), (1, 2)])
    assert column(result, "updates", "published_s")[0] == 9.5
    assert ("push_failed", 6.5, 8.5) in spells(result, "trainer")


def test_an_engine_that_fetches_for_itself_tries_again_for_the_newest():
    result = pushed(
        0,
        retry_s=1.5,
        updates=5,
        policy_update_s=2.0,
        tokens=(3, 10, 4),
        running="keep",
        engines="when_idle",
    )
    # versions 1 at 5 and 2 at 9; engine 0, empty at 7, loads 1 from 8.5 to 9.5 and then 2
    assert column(result, "updates", "published_s")[:2] == [5, 9]
    assert versions(result, 3) == (10.5, 14.5, [(2, 4)])
    assert versions(result, 4) == (11, 15, [(2, 4)])
    assert result.failures == {"push_failures": 1}


@pytest.mark.parametrize("running", ["keep", "recompute", "restart", "drain"])
@pytest.mark.parametrize("which", ["together", "rolling"])
def test_whatever_the_rule_nothing_is_lost_and_only_rolling_pushes_mix(running, which):
    given = config(
        slots=6,
        engines=3,
        engine=FixedSpeed(seconds_per_token=0.25),
        group_size=2,
        rollouts_per_update=4,
        updates=20,
        push_s=0.6,
        lengths=Exponential(mean_tokens=9, max_tokens=20),
        failures=Failures(push_failure_probability=0.5, push_retry_s=1.0),
    )
    rule = Staleness(admission=always, on_sync=OnSync(running=running, engines=which, pauses_engines=True))
    pipeline = Pipeline(simpy.Environment(), given, DrawnWorkload(drawn_lengths(given)), rule=rule)
    pipeline.ledger.checks_always = True
    result = pipeline.run()
    held = [engine.weights for engine in pipeline.engines]
    assert all(weights.versions == list(range(21)) for weights in held)
    times = {tuple(weights.published_s) for weights in held}
    assert len(times) == (3 if which == "rolling" else 1)
    failed = [row for row in spells(result, "trainer") if row[0] == "push_failed"]
    assert len(failed) == result.failures["push_failures"] > 0
    assert all(end_s - start_s == pytest.approx(1.0) for _, start_s, end_s in failed)
