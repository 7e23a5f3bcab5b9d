"""Reported faults of versions and lag: what counts them, what bounds them, and what a push does."""

import numpy as np
import pytest
import simpy

from algorithms.advantage import group_centred
from algorithms.dropping import drop_group, recompute, withhold
from analysis.measures.lag_split import lag_split
from simulator.config import DropByAge, Sync
from simulator.pipeline.pipeline import Pipeline
from simulator.rules.admission import always
from simulator.rules.on_sync import abort_and_restart, abort_and_resume, keep, rolling
from simulator.rules.staleness import Staleness
from simulator.world.decoding import LoadDependent
from simulator.world.episodes import Episode, MultiTurn
from tests.algorithms.make import bandit
from tests.simulator.pipeline.test_episodes import Episodes, segments
from tests.simulator.runs import Lengths, column, config, in_turn, simulate, trained


def by_id(result):
    return result.log.rollouts.to_pandas().set_index("rollout_id").sort_index()


def test_a_version_does_not_count_what_was_fed():
    """B02: 210 prompts are fed at version 4, and stamped 4, not 210."""
    result = simulate(slots=210, rollouts_per_update=210, updates=5, staleness=Sync())
    fifth = trained(result).query("consumed_version == 4")
    assert len(fifth) == 210
    assert set(fifth.first_version) == set(fifth.last_version) == {4}


def test_a_version_counts_publishes_and_not_their_parts():
    """B02: 3 publishes, each to 4 engines one after another, are versions 1, 2, 3 and not 12."""
    workload = in_turn(3)
    rule = Staleness(admission=always, on_sync=rolling())
    settings = config(slots=4, engines=4, updates=3, push_s=1.0)
    pipeline = Pipeline(simpy.Environment(), settings, workload, rule=rule)
    result = pipeline.run()
    assert workload.published == column(result, "updates", "version") == [1, 2, 3]
    ends, published = (np.array(column(result, "updates", name)) for name in ("train_end_s", "published_s"))
    assert (published - ends == 4).all()
    assert pipeline.fleet.version == 3


def test_a_limit_of_zero_drops_what_a_push_fell_into():
    """B04: one push in the middle of a rollout, and it is used under a newer version than it began with."""
    # updates end at 5; rollout 1 decodes from 3 to 6, rollout 2 from 6 to 9
    result = simulate(staleness=DropByAge(max_lag_updates=0), updates=2)
    rows = by_id(result)
    assert rows.loc[1, ["first_version", "last_version", "consumed_version"]].tolist() == [0, 1, 1]
    assert rows.loc[[0, 1, 2], "status"].tolist() == ["trained", "dropped", "trained"]


def test_lags_up_to_the_limit_pass_and_one_more_does_not():
    """B04: limit 2, lags 0, 1, 2, 3. B06: what finished before any update has lag 3 from the queue alone."""
    quick = in_turn(2, 2, 2, 2, 1)
    limit = DropByAge(max_lag_updates=2)
    result = simulate(workload=quick, slots=4, updates=4, policy_update_s=4.0, staleness=limit)
    rows = by_id(result).loc[[0, 1, 2, 3]]
    assert (rows.consumed_version - rows.oldest_version).tolist() == [0, 1, 2, 3]
    assert rows.status.tolist() == ["trained", "trained", "trained", "dropped"]
    assert rows.finished_s.tolist() == [2, 2, 2, 2]
    parts = lag_split(result.log.rollouts.to_pandas(), result.log.updates.to_pandas()).set_index("rollout_id")
    split = parts.loc[3, ["generation", "group_wait", "queue", "trainer_ahead", "lag"]]
    assert split.tolist() == [0, 0, 3, 0, 3]


def test_one_stale_member_and_its_siblings():
    """B14: withhold (the default), recompute and drop_group; the simulator's age limit is the third."""
    record = bandit([1.0, 0.0, 0.0, 1.0], [0, 0, 0, 0])
    stale = record.returns.new_tensor([0, 0, 0, 1]).bool()
    for policy, expected in (
        (withhold, [0.5, -0.5, -0.5]),
        (recompute, [2 / 3, -1 / 3, -1 / 3]),
        (drop_group, []),
    ):
        _, advantages = policy(record, stale, group_centred)
        assert advantages[:, 0].tolist() == pytest.approx(expected)
    # two slots, groups of four: members 0 and 1 of group 1 decode from 6 to 9, members 2 and 3 from 9 to 12;
    # the push at 8 makes the first two one update old at 12, and the others not at all
    result = simulate(
        slots=2, group_size=4, rollouts_per_update=4, updates=2, staleness=DropByAge(max_lag_updates=0)
    )
    second = by_id(result).query("group_id == 1")
    assert (second.consumed_version - second.oldest_version).tolist() == [1, 1, 0, 0]
    assert set(second.status) == {"dropped"}
    assert set(second.reason) == {"too_old"}


def test_without_partial_rollouts_an_aborted_one_begins_again_from_its_prompt():
    """B15: aborted after 2 tokens; and one that is aborted twice, which kept would mix three versions."""
    # pushes at 5, 10 and 19 s; prompt 2 begins at 3 s, prompt 1 (7 tokens) at 0, 5 and 10 s
    result = simulate(
        workload=in_turn(3, 7, 3, 100),
        slots=2,
        updates=3,
        rule=Staleness(admission=always, on_sync=abort_and_restart()),
    )
    rows = by_id(result)
    aborted = rows[rows.status == "dropped"]
    assert set(aborted.reason) == {"restarted"}
    assert aborted.query("prompt_id == 2").action_tokens.tolist() == [2]
    assert aborted.query("prompt_id == 1").action_tokens.tolist() == [5, 5]
    done = trained(result).set_index("prompt_id")
    assert done.action_tokens.to_dict() == {0: 3, 2: 3, 1: 7}
    assert done.first_version.to_dict() == done.last_version.to_dict() == {0: 0, 2: 1, 1: 2}
    assert column(result, "updates", "tokens") == [3, 3, 7]  # and nothing of the 2, 5 and 5


PREFILL = LoadDependent(
    step_fixed_s=1.0, step_s_per_rollout=0.0, step_s_per_kv_token=0.0, prefill_s_per_token=0.1
)
"""A step takes a second, and so does the prefill of the prompt of 10 tokens."""


@pytest.mark.parametrize(("on_sync", "first_ends_s"), [(keep(), 12.0), (abort_and_resume(), 13.1)])
def test_no_prefix_of_older_weights_is_taken_for_a_new_one(on_sync, first_ends_s):
    """B24: either the prefix is computed again, or its version stays with the rollout, which decides by it.

    Two answers to one prompt, before and after a push at 10 s, in one slot. Nothing of a prompt's keys is
    shared between rollouts, so the second pays for its own prefill under the new weights.
    """
    result = simulate(
        workload=in_turn(3),
        rule=Staleness(admission=always, on_sync=on_sync),
        engine=PREFILL,
        prompt_tokens=10,
        group_size=2,
        rollouts_per_update=2,
        updates=2,
    )
    rows = by_id(result)
    before, after = rows.loc[2], rows.loc[3]
    assert before.prompt_id == after.prompt_id == 1
    # 1 s of prefill and 1 token by 10 s; then 2 more tokens, after 11 tokens of prefill if they were dropped
    assert (before.started_s, before.finished_s) == (8.0, pytest.approx(first_ends_s))
    assert (before.oldest_version, before.last_version) == (0, 1)
    assert before.consumed_version - before.oldest_version == 1
    assert (after.oldest_version, after.last_version) == (1, 1)
    assert after.finished_s - after.started_s == pytest.approx(1.0 + 3.0)


@pytest.mark.parametrize(("on_sync", "prefilled_tokens"), [(keep(), 5), (abort_and_resume(), 17)])
def test_a_push_during_a_tool_call_drops_the_keys_or_keeps_their_version(on_sync, prefilled_tokens):
    """B24: 10 of the prompt and 2 of the first turn are there as the tool begins, and it returns 5."""
    # rollout 0 ends at 2 and is trained until 6; rollout 1 makes its first turn from 2 to 5, and is back at 8
    result = simulate(
        workload=Episodes(Episode((1,)), Episode((2, 3), (5,), (3.0,))),
        rule=Staleness(admission=always, on_sync=on_sync),
        engine=PREFILL,
        prompt_tokens=10,
        policy_update_s=4.0,
        episode=MultiTurn(slot_between_turns="kept", keys_between_turns="kept"),
        updates=2,
    )
    first, second = segments(result, 1)
    assert first == (0, 0, 2, 2, 5)
    assert second == (1, 2, 3, 8, pytest.approx(8 + 0.1 * prefilled_tokens + 3))
    row = by_id(result).loc[1]
    assert (row.oldest_version, row.last_version, row.consumed_version) == (0, 1, 1)


def test_a_publish_aborts_nothing_unless_it_is_told_to():
    """B25: 16 are in flight at the publish; all go on under the new weights and are finished."""
    result = simulate(
        workload=in_turn(3, 50),
        slots=16,
        updates=3,
        rule=Staleness(admission=always, on_sync=keep()),
    )
    assert column(result, "updates", "published_s")[0] == 5
    rows = by_id(result).loc[1:16]
    assert len(rows) == 16
    assert (rows.started_s < 5).all()
    assert (rows.finished_s > 5).all()
    assert rows.first_version.eq(0).all()
    assert rows.last_version.ge(1).all()
    assert result.ledger.rollouts["dropped"] == 0


@pytest.mark.parametrize("on_sync", [keep(), abort_and_resume(), abort_and_restart(), rolling()])
def test_a_publish_that_fails_half_way_moves_no_version(on_sync):
    """B25: training ends at 5; an engine takes 2 s, and the network fails 1 s before the last one has it."""
    workload = in_turn(3, 50)
    settings = config(slots=2, engines=2, updates=2, push_s=2.0)
    env = simpy.Environment()
    pipeline = Pipeline(env, settings, workload, rule=Staleness(admission=always, on_sync=on_sync))
    fails_s = 5.0 + (3.0 if on_sync.engines == "rolling" else 1.0)

    def network(env):
        yield env.timeout(fails_s)
        raise ConnectionError("lost rank 1")

    env.process(network(env))
    with pytest.raises(ConnectionError, match="lost rank 1"):
        pipeline.run()
    assert env.now == fails_s
    assert workload.published == []
    assert pipeline.fleet.version == 0
    held = [engine.weights.versions[-1] for engine in pipeline.engines]
    assert held == ([1, 0] if on_sync.engines == "rolling" else [0, 0])


def test_a_run_that_ends_within_a_push_has_not_published_it():
    """B25: the same at the end of a run: the update is there, its publish is not, and no token has it."""
    result = simulate(workload=Lengths(lambda *_: 3), push_s=2.0, updates=1, until_s=6.0)
    assert column(result, "updates", "version") == [1]
    assert column(result, "updates", "published_s") == [None]
    assert set(column(result, "segments", "version")) == {0}
