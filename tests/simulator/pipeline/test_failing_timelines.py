"""One thing goes wrong: timelines small enough to draw on paper. A token takes a second."""

from itertools import chain, repeat

import pytest

from simulator.config import DropByAge
from simulator.pipeline.pipeline import run
from simulator.rules.admission import always
from simulator.rules.staleness import Staleness
from simulator.world.decoding import LoadDependent
from simulator.world.failures import Failures, Faults
from tests.simulator.runs import Lengths, column, config, in_turn

NEVER = (1e9, 0.0)


def once(*spells):
    """These, and nothing after them."""
    return chain(spells, repeat(NEVER))


def first_engine(*spells):
    return lambda engine: once(*spells) if engine == 0 else once()


def failing(*members):
    """The first attempts at these places fail after so many tokens."""
    after = dict(members)
    return lambda place, attempt, _tokens: after.get(place) if attempt == 0 else None


def met(faults, *tokens, failures=None, group_of=None, **changes):
    workload = Lengths(group_of) if group_of else in_turn(*tokens)
    given = {"failures": Failures(**(failures or {})), **changes}
    return run(config(**given), workload, rule=Staleness(admission=always), faults=faults)


def rows(result):
    return result.log.rollouts.to_pandas().set_index("rollout_id").sort_index()


def life(result, rollout_id):
    """Start, end, and (version, tokens, start, end) in order."""
    row = rows(result).loc[rollout_id]
    pieces = result.log.segments.to_pandas().query(f"rollout_id == {rollout_id}").sort_values("start_token")
    parts = list(zip(pieces.version, pieces.tokens, pieces.start_s, pieces.end_s, strict=True))
    return row.started_s, row.finished_s, parts


def spells(result, resource):
    found = [row for row in result.log.intervals.to_pylist() if row["resource"] == resource]
    return [(r["cause"], r["start_s"], r["end_s"]) for r in sorted(found, key=lambda r: r["start_s"])]


def test_a_crash_starts_the_rollout_again_when_the_engine_is_back():
    # one slot; the crash at 4.5 s finds rollout 1 with one token of five
    result = met(Faults(outages=first_engine((4.5, 2.0))), 3, 5, updates=2, policy_update_s=1.0)
    assert rows(result).status.tolist()[:3] == ["trained", "dropped", "trained"]
    lost = rows(result).loc[1]
    assert (lost.reason, lost.action_tokens, lost.started_s) == ("engine_crashed", 1, 3)
    again = rows(result).loc[2]
    assert (again.prompt_id, again.started_s, again.finished_s) == (1, 6.5, 11.5)
    assert spells(result, "engine-0/slot-0") == [
        ("decode", 0, 4.5),
        ("crashed", 4.5, 6.5),
        ("decode", 6.5, 12.5),
    ]
    assert result.failures == {"engine_crashes": 1}


def test_a_crash_lets_the_rollout_go_on_elsewhere():
    # two engines of one slot: engine 1 ends its rollout at 6 s, and takes over what engine 0 lost at 4.5 s
    result = met(
        Faults(outages=first_engine((4.5, 10.0))),
        *(8, 6, 3),
        slots=2,
        engines=2,
        updates=2,
        policy_update_s=1.0,
        failures={"after_crash": "resume"},
    )
    # 4 tokens by 4.5 s; the fifth, under way, is lost; the other four after 6 s, one of them before the push
    assert life(result, 0) == (0, 10, [(0, 4, 0, 4.5), (0, 1, 6, 7), (1, 3, 7, 10)])
    assert rows(result).loc[0].engine == 1
    assert spells(result, "engine-0/slot-0") == [("decode", 0, 4.5), ("crashed", 4.5, 11)]
    assert result.ledger.dropped_by_reason == {}


def test_going_on_elsewhere_computes_the_prefix_again():
    result = met(
        Faults(outages=first_engine((4.5, 10.0))),
        *(8, 6, 3),
        slots=2,
        engines=2,
        updates=2,
        policy_update_s=100.0,
        prompt_tokens=10,
        engine=LoadDependent(
            step_fixed_s=1.0, step_s_per_rollout=0.0, step_s_per_kv_token=0.0, prefill_s_per_token=0.1
        ),
        failures={"after_crash": "resume"},
    )
    # a prompt takes 1 s: 3 tokens by 4.5 s; engine 1 is free at 7 s, computes 13 tokens in 1.3 s, makes 5
    start_s, end_s, pieces = life(result, 0)
    assert (start_s, end_s) == (0, pytest.approx(13.3))
    assert [tokens for _, tokens, *_ in pieces] == [3, 5]


def test_an_engine_behind_does_not_take_over():
    # engine 0 crashes under version 1; nobody else has it until the push to all
    result = met(
        Faults(outages=first_engine((5.5, 1.0))), 3, 6, slots=1, updates=3, failures={"after_crash": "resume"}
    )
    versions = [version for version, *_ in life(result, 1)[2]]
    assert versions == sorted(versions)


def test_a_failed_environment_leaves_no_result_and_takes_its_group_along():
    # three groups of two; member 1 of group 0 fails at its second token, member 0 is stopped with it
    result = met(
        Faults(fails_after=failing((1, 2))),
        group_of=lambda _prompt, _member: 4,
        slots=2,
        group_size=2,
        rollouts_per_update=2,
        updates=1,
    )
    found = rows(result)
    assert found.reason.tolist()[:2] == ["group_incomplete", "environment_failed"]
    assert found.action_tokens.tolist()[:2] == [2, 2]
    assert found.finished_s.tolist()[1] == 2
    assert found.prompt_id[found.status == "trained"].tolist() == [1, 1]
    assert column(result, "updates", "train_start_s") == [6]
    assert result.failures == {"environment_failures": 1, "groups_dropped": 1}


def test_a_failed_member_tries_again_and_its_siblings_wait():
    result = met(
        Faults(fails_after=failing((1, 2))),
        group_of=lambda _prompt, _member: 4,
        failures={"incomplete_group": "retry"},
        slots=2,
        group_size=2,
        rollouts_per_update=2,
        updates=1,
    )
    # the second attempt begins at 2 s
    trained = rows(result).query("status == 'trained'")
    assert trained.prompt_id.tolist() == [0, 0]
    assert trained.started_s.tolist() == [0, 2]
    assert column(result, "updates", "train_start_s") == [6]
    assert result.failures == {"environment_failures": 1, "members_retried": 1}


def test_a_group_with_a_majority_is_filled_up_with_copies():
    # three of four are valid, the last of them at 7 s; the trainer sees four, the log three
    result, seen = padded(lambda _prompt, member: 4 + member)
    trained = rows(result).query("status == 'trained'")
    assert trained.member.tolist() == [0, 2, 3]
    assert set(trained.group_ready_s) == set(trained.enqueued_s) == {7}
    assert seen == [0, 2, 3, 0]
    assert column(result, "updates", "rollouts") == [3]
    assert column(result, "updates", "tokens") == [4 + 6 + 7]
    assert trained.reward.tolist() == [0, 2, 3]
    # a copy costs as much as a rollout: 4 + 6 + 7 + 4 tokens at a tenth of a second
    assert column(result, "updates", "train_end_s") == [pytest.approx(7 + 2.1)]
    assert result.failures == {"environment_failures": 1, "groups_padded": 1, "copies": 1}


def padded(length):
    class Learner(Lengths):
        def train(self, update):
            from simulator.pipeline.workload import UpdateResult

            seen.extend(r.member for r in update.rollouts)
            return UpdateResult(rewards=[float(r.member) for r in update.rollouts])

    seen: list[int] = []
    result = run(
        config(
            slots=4,
            group_size=4,
            rollouts_per_update=4,
            updates=1,
            policy_update_s=0.0,
            policy_update_s_per_token=0.1,
            failures=Failures(incomplete_group="pad"),
        ),
        Learner(length),
        rule=Staleness(admission=always),
        faults=Faults(fails_after=failing((1, 2))),
    )
    return result, seen


def test_a_deadline_ends_the_wait_for_a_stuck_member():
    # member 2 would take 1000 s; the other two are shipped after 10 s with a copy, or dropped
    def stuck(prompt, member):
        return 1000 if (prompt, member) == (0, 2) else 4

    def at_deadline(incomplete):
        return met(
            Faults(),
            group_of=stuck,
            failures={"group_deadline_s": 10.0, "incomplete_group": incomplete},
            slots=3,
            group_size=3,
            rollouts_per_update=3,
            updates=3,
            policy_update_s=1.0,
        )

    shipped = at_deadline("pad")
    first = rows(shipped).query("prompt_id == 0")
    assert first.status.tolist() == ["trained", "trained", "dropped"]
    assert first.reason.dropna().tolist() == ["group_deadline"]
    assert first.action_tokens.tolist() == [4, 4, 10]
    assert set(first.enqueued_s.dropna()) == {10}
    assert shipped.failures == {"groups_overdue": 1, "groups_padded": 1, "copies": 1}
    for rule in ("drop", "retry"):
        dropped = at_deadline(rule)
        assert set(rows(dropped).query("prompt_id == 0").reason) == {"group_deadline"}
        assert dropped.failures == {"groups_overdue": 1, "groups_dropped": 1}


def test_a_stall_interrupts_an_update():
    # the update from 3 s on needs 2 s; the trainer stands still from 4 to 14 s
    result = met(Faults(stalls=once((4.0, 10.0))), 3, updates=1)
    assert spells(result, "trainer") == [
        ("no_batch", 0, 3),
        ("policy_update", 3, 4),
        ("stalled", 4, 14),
        ("policy_update", 14, 15),
    ]


def test_a_stall_holds_up_the_next_batch_from_when_it_is_there():
    result = met(Faults(stalls=once((1.0, 10.0))), 3, updates=1)
    assert spells(result, "trainer") == [("no_batch", 0, 3), ("stalled", 3, 11), ("policy_update", 11, 13)]


def test_a_straggler_takes_longer_by_its_factor():
    result = met(None, 3, slots=2, engines=2, updates=1, failures={"slow_engines": 1, "slow_factor": 4.0})
    assert result.log.updates.to_pandas().train_start_s.tolist() == [3]
    assert spells(result, "engine-0/slot-0") == [("decode", 0, 5)]
    assert rows(result).query("engine == 0").status.tolist() == ["in_flight"]
    longer = met(None, 3, slots=2, engines=2, updates=5, failures={"slow_engines": 1, "slow_factor": 4.0})
    assert rows(longer).query("engine == 0").finished_s.tolist()[0] == 12


def test_a_slow_spell_stretches_the_tokens_within_it():
    # three tokens in 3 s, then slow by two for 4 s: two tokens; then the last three
    faults = Faults(slow_spells=first_engine((3.0, 4.0)))
    result = met(faults, 8, updates=1, failures={"slow_engines": 1, "slow_factor": 2.0, "slow_every_s": 1.0})
    assert life(result, 0)[:2] == (0, pytest.approx(10))


def test_what_was_too_old_makes_room_in_a_full_queue():
    # version 1 is there from 53 s on; what is then in the full queue, and outside it, is too old
    given = config(
        slots=2,
        updates=3,
        policy_update_s=50.0,
        queue_capacity_rollouts=2,
        queue_full="block",
        staleness=DropByAge(max_lag_updates=0),
    )
    result = run(given, in_turn(3))
    assert result.log.updates.num_rows == 3
    assert rows(result).query("status == 'trained'").finished_s.tolist() == [3, 56, 109]


def test_a_full_queue_holds_its_producers_and_loses_nothing():
    # two slots make two rollouts each 3 s; the first update takes 20 s, and the queue holds two
    def queued(full):
        given = config(slots=2, updates=2, policy_update_s=20.0, queue_capacity_rollouts=2, queue_full=full)
        return run(given, in_turn(3))

    blocked = queued("block")
    # at 3 s one is taken and one queued; at 6 s one more is queued; the other finds no room until 23 s, as
    # does the one that ends at 9 s until 43 s, when the run ends; what starts at 23 s ends at 26 s
    assert blocked.ledger.dropped_by_reason == {}
    assert rows(blocked).enqueued_s.tolist()[:4] == [3, 3, 6, 23]
    assert rows(blocked).started_s.tolist()[4] == 6
    assert rows(blocked).finished_s.tolist()[:5] == [3, 3, 6, 6, 9]
    both = spells(blocked, "engine-0/slot-0") + spells(blocked, "engine-0/slot-1")
    assert sum(end - start for cause, start, end in both if cause == "queue_full") == (23 - 6) + (43 - 9) + (
        43 - 26
    )
    assert queued("drop_oldest").ledger.dropped_by_reason["queue_full"][0] > 0
