"""Groups, queue and counts: every rollout is in one place, and the rules see the right numbers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.rollout import Rollout
from full_runs.controller.buffer import Buffer
from full_runs.controller.records import Asked, Made
from full_runs.tasks.play import Played
from simulator.rules import admission, eviction, incomplete, selection
from simulator.rules.staleness import Staleness, bounded_lag, drop_by_age, sync

CAP = 10


def asked(rollout: int, *, group_size: int = 1, group: int | None = None) -> Asked:
    at, member = divmod(rollout, group_size)
    at = at if group is None else group
    return Asked(rollout_id=rollout, prompt_id=at, group_id=at, member=member, submitted_s=0.0)


def made(of: Asked, *versions: int, finished_s: float = 1.0) -> Made:
    versions = versions or (0,)
    rollout = Rollout(
        prompt_id=of.prompt_id,
        group_id=of.group_id,
        token_ids=(1,) * len(versions),
        action_mask=(True,) * len(versions),
        behaviour_log_probs=(-1.0,) * len(versions),
        policy_versions=versions,
        reward=1.0,
    )
    played = Played(prompt=(1,), rollout=rollout, pieces=(), turns=1, environment_s=0.0)
    return Made(asked=of, played=played, engine=0, started_s=0.0, finished_s=finished_s)


def buffer(
    rule: Staleness,
    *,
    batch: int = 2,
    group_size: int = 1,
    on_incomplete: incomplete.Incomplete = incomplete.drop_group,
    dropped: list[tuple[int, str]] | None = None,
) -> Buffer:
    seen = [] if dropped is None else dropped
    return Buffer(
        rule,
        on_incomplete,
        batch_rollouts=batch,
        group_size=group_size,
        most_tokens=CAP,
        on_drop=lambda each, reason: seen.append((each.asked.rollout_id, reason)),
        uniform=random.Random(0).random,
    )


def ids(groups):
    return [[m.asked.rollout_id for m in group.members] for group in groups]


def test_a_batch_is_there_when_it_is_full_and_first_come_is_first_served():
    held = buffer(drop_by_age(5))
    for i in range(3):
        held.start(asked(i), 0)
    held.finish(made(asked(2)))
    assert held.take(0) is None
    held.finish(made(asked(0)))
    held.finish(made(asked(1)))
    assert ids(held.take(0)) == [[2], [0]]
    assert held.take(0) is None


def test_a_group_waits_for_its_slowest_member_and_stands_in_order():
    held = buffer(drop_by_age(5), group_size=2)
    members = [asked(i, group_size=2) for i in range(2)]
    for each in members:
        held.start(each, 0)
    assert held.finish(made(members[1])) is None
    assert held.ledger.rollouts["waiting"] == 1
    group = held.finish(made(members[0], finished_s=4.0))
    assert group is not None
    assert group.ready_s == 4.0
    assert ids(held.take(0)) == [[0, 1]]


def test_the_oldest_token_decides_what_is_too_old_and_time_in_the_queue_counts():
    dropped: list[tuple[int, str]] = []
    held = buffer(drop_by_age(2), batch=1, dropped=dropped)
    for i in range(2):
        held.start(asked(i), 0)
    held.finish(made(asked(0), 1, 3, 3))
    held.finish(made(asked(1), 3))
    assert ids(held.take(4)) == [[1]]  # 4 - 1 = 3 is more than 2
    assert dropped == [(0, "too_old")]
    assert held.ledger.dropped_by_reason == {"too_old": (1, 3)}


def test_an_age_of_just_the_limit_is_trained():
    held = buffer(drop_by_age(2), batch=1)
    held.start(asked(0), 0)
    held.finish(made(asked(0), 1))
    assert ids(held.take(3)) == [[0]]


def test_a_failed_member_takes_its_group_with_it_whoever_still_runs():
    dropped: list[tuple[int, str]] = []
    held = buffer(drop_by_age(5), batch=3, group_size=3, dropped=dropped)
    members = [asked(i, group_size=3) for i in range(3)]
    for each in members:
        held.start(each, 0)
    held.finish(made(members[0]))
    assert held.fail(members[1], "environment_failed", 2.0) == ("drop", None)
    assert dropped == [(0, "incomplete_group")]
    assert held.finish(made(members[2])) is None
    assert dropped == [(0, "incomplete_group"), (2, "incomplete_group")]
    assert held.ledger.rollouts["dropped"] == 3
    assert held.ledger.dropped_by_reason["environment_failed"] == (1, 0)


def filled_up() -> Buffer:
    """A group of four in the queue, one of which failed."""
    held = buffer(drop_by_age(5), batch=4, group_size=4, on_incomplete=incomplete.pad_if_most_are_valid)
    members = [asked(i, group_size=4) for i in range(4)]
    for each in members:
        held.start(each, 0)
    assert held.fail(members[1], "environment_failed", 0.0) == ("wait", None)
    for i in (0, 2):
        assert held.finish(made(members[i])) is None
    assert held.finish(made(members[3])) is not None
    counts = held.counts(engine_version=0, trainer_version=0)
    assert counts.queued_rollouts == counts.outstanding_rollouts == counts.submitted_rollouts == 4
    return held


def test_a_group_most_of_which_is_valid_is_filled_up_with_copies():
    held = filled_up()
    batch = held.take(0)
    assert batch is not None
    counts = held.counts(engine_version=0, trainer_version=0)
    assert counts.queued_rollouts == counts.outstanding_rollouts == 0
    assert ids(batch) == [[0, 2, 3, 0]]
    held.trained(batch)
    assert held.ledger.rollouts["trained"] == 3  # rollouts, not copies
    assert held.counts(engine_version=1, trainer_version=1).trained_rollouts == 4


def test_a_copy_is_thrown_away_with_its_group():
    held = filled_up()
    assert held.take(6) is None  # too old by then
    counts = held.counts(engine_version=6, trainer_version=6)
    assert counts.queued_rollouts == counts.outstanding_rollouts == counts.submitted_rollouts == 0


def test_a_member_that_is_retried_completes_its_group():
    held = buffer(drop_by_age(5), group_size=2, on_incomplete=incomplete.retry_member)
    first, second = asked(0, group_size=2), asked(1, group_size=2)
    held.start(first, 0)
    held.start(second, 0)
    verdict, _ = held.fail(first, "environment_failed", 1.0)
    assert verdict == "retry"
    held.retried(0)
    again = asked(2, group_size=2, group=0)
    held.start(again, 0)
    held.finish(made(second))
    assert held.finish(made(again)) is not None


def test_an_overflowing_queue_drops_its_oldest():
    dropped: list[tuple[int, str]] = []
    rule = Staleness(admission=admission.always, overflow=eviction.drop_oldest_beyond(2))
    held = buffer(rule, batch=2, dropped=dropped)
    for i in range(3):
        held.start(asked(i), 0)
        held.finish(made(asked(i)))
    assert dropped == [(0, "overflow")]
    assert ids(held.take(0)) == [[1], [2]]


def test_what_rules_see_of_a_synchronous_run():
    held = buffer(sync(), batch=2)
    may = lambda v: held.rule.admission(held.counts(engine_version=v, trainer_version=v))  # noqa: E731
    assert may(0) == 2
    for i in range(2):
        held.start(asked(i), 0)
    assert may(0) == 0
    for i in range(2):
        held.finish(made(asked(i)))
    batch = held.take(0)
    assert batch is not None
    held.trained(batch)
    assert may(0) == 0  # the trainer is ahead of the engines
    assert may(1) == 2


def test_what_failed_was_never_submitted_to_a_bounded_gate():
    held = buffer(bounded_lag(1), batch=2)
    for i in range(4):
        held.start(asked(i), 0)
    counts = held.counts(engine_version=0, trainer_version=0)
    assert held.rule.admission(counts) == 0
    held.fail(asked(3), "environment_failed", 0.0)
    assert held.rule.admission(held.counts(engine_version=0, trainer_version=0)) == 1


def test_a_selection_sees_what_is_unfinished():
    rule = Staleness(admission=admission.always, selection=selection.in_order)
    held = buffer(rule, batch=2)
    for i in range(3):
        held.start(asked(i), 0)
    held.finish(made(asked(1)))
    held.finish(made(asked(2)))
    assert held.take(0) is None  # waits for rollout 0
    held.finish(made(asked(0)))
    assert ids(held.take(0)) == [[0], [1]]


@given(st.lists(st.sampled_from(["start", "finish", "fail", "take"]), max_size=80), st.integers(1, 3))
def test_every_rollout_is_trained_once_or_dropped_once_or_still_there(moves, group_size):
    """Whatever happens in whatever order, the ledger's sums hold, and nothing is trained twice."""
    draw, version, number = random.Random(len(moves)), 0, 0
    held = buffer(drop_by_age(1), batch=2 * group_size, group_size=group_size)
    trained: list[int] = []
    for move in moves:
        running = sorted(held.running)
        if move == "start":
            held.start(asked(number, group_size=group_size), version)
            number += 1
        elif move == "finish" and running:
            held.finish(made(held.running[draw.choice(running)], version))
        elif move == "fail" and running:
            held.fail(held.running[draw.choice(running)], "environment_failed", 0.0)
        elif move == "take" and (batch := held.take(version)) is not None:
            held.trained(batch)
            version += 1
            trained += [m.asked.rollout_id for group in batch for m in group.distinct]
    held.ledger.check()
    assert len(set(trained)) == len(trained) == held.ledger.rollouts["trained"]
    assert held.ledger.generated_rollouts == number
    counts = held.counts(engine_version=version, trainer_version=version)
    assert counts.outstanding_rollouts == number - len(trained) - held.ledger.rollouts["dropped"]


def test_a_rollout_cannot_be_finished_twice():
    held = buffer(drop_by_age(5))
    held.start(asked(0), 0)
    held.finish(made(asked(0)))
    with pytest.raises(KeyError):
        held.finish(made(asked(0)))
