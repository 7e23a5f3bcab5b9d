"""A run that makes no progress ends, and says who waits for what."""

import pytest

from simulator.pipeline.pipeline import run
from simulator.pipeline.workload import UpdateResult
from simulator.rules.admission import always
from simulator.rules.on_sync import drain
from simulator.rules.staleness import Staleness
from simulator.stalled import StalledError
from simulator.world.failures import Failures, Faults
from tests.simulator.pipeline.test_failing_timelines import first_engine
from tests.simulator.runs import Lengths, config, in_turn


def stalled(rule, **changes):
    with pytest.raises(StalledError) as said:
        run(config(**changes), in_turn(3), rule=rule)
    return str(said.value)


def lets_start(rollouts):
    return lambda counts: rollouts - counts.submitted_rollouts


def test_a_gate_that_never_opens():
    said = stalled(Staleness(admission=lets_start(5)), slots=2, group_size=3, rollouts_per_update=6)
    assert said == (
        "nothing can happen any more at 9 s, 0 of 4 updates are done."
        " The trainer waits for a batch: 3 rollouts are queued, 6 are needed."
        " The door: the rule lets 0 more start, 0 run, 2 wait for their groups."
        " Engines: engine-0 runs 0 of 2 (gate_closed)."
        " Incomplete: group 1 misses 2."
    )


def test_a_selection_that_never_chooses():
    def never(_candidates, _take):
        return None

    said = stalled(Staleness(admission=lets_start(3), selection=never))
    assert "3 rollouts are queued, 1 are needed, and " in said
    assert "never takes none." in said


def test_a_push_that_never_may():
    said = stalled(Staleness(admission=lets_start(2), may_publish=lambda _counts: False))
    assert "The trainer waits to push: the rule does not let it yet." in said


def test_many_engines_and_groups_are_counted():
    said = stalled(
        Staleness(admission=lambda counts: 11 - counts.submitted_rollouts),
        slots=12,
        engines=6,
        group_size=2,
        rollouts_per_update=12,
    )
    assert "engine-3 runs 0 of 2 (gate_closed); and 2 more engines." in said


def test_failures_that_could_still_come_do_not_keep_a_stuck_run_alive():
    # crashes, slow spells and the watchdog itself are always ahead
    failures = Failures(
        engine_crash_every_s=10.0, slow_engines=1, slow_factor=2.0, slow_every_s=10.0, slow_for_s=10.0
    )
    rule = Staleness(admission=lets_start(3))
    said = stalled(rule, failures=failures, rollouts_per_update=4, stall_limit_s=1e6)
    assert said.startswith("nothing can happen any more at ")


def test_groups_that_never_meet_their_deadline():
    failures = Failures(group_deadline_s=2.0)
    given = config(failures=failures, stall_limit_s=40.0)
    with pytest.raises(StalledError) as said:
        run(given, in_turn(3))
    assert "the rule lets any number start" in str(said.value)
    assert str(said.value).endswith("So far: groups overdue 19, groups dropped 19.")


def test_no_update_for_too_long():
    # each update is done 3 + 2 s after the last; one rollout takes 100 s
    given = config(stall_limit_s=20.0)
    with pytest.raises(StalledError, match=r"no update for 20 s at 25 s, 1 of 4 updates are done") as said:
        run(given, in_turn(3, 100))
    assert "engine-0 runs 1 of 1" in str(said.value)


def test_the_limit_changes_nothing_while_updates_come():
    assert run(config(stall_limit_s=20.0)).log.digest() == run(config()).log.digest()


def test_a_crash_during_a_drain_does_not_leave_the_push_waiting():
    # the push waits from 5 s on for rollout 1, which needs until 103 s; its engine crashes at 10 s
    faults = Faults(outages=first_engine((10.0, 1.0)))
    rule = Staleness(admission=always, on_sync=drain())
    result = run(config(updates=1), in_turn(3, 100), rule=rule, faults=faults)
    assert result.log.updates.to_pandas().published_s.tolist() == [10]


@pytest.mark.parametrize("where", ["length", "train", "publish"])
def test_an_error_of_a_worker_ends_the_run_with_that_error(where):
    # B18: in whatever process it was raised, and though engines go on crashing for ever
    class Dies(Lengths):
        def train(self, _update):
            if where == "train":
                raise OSError("disk full")
            return UpdateResult()

        def publish(self, _version):
            if where == "publish":
                raise OSError("disk full")

    def length(prompt, _member):
        if where == "length" and prompt == 2:
            raise OSError("disk full")
        return 3

    with pytest.raises(OSError, match="disk full"):
        run(config(failures=Failures(engine_crash_every_s=50.0), stall_limit_s=1e6), Dies(length))


def test_a_prompt_that_is_never_in_time_and_always_tried_again():
    # prompt 1 needs 5 s and has 4; prompt 0 has been trained
    rule = Staleness(admission=always, replacement="same_prompt")
    with pytest.raises(StalledError) as said:
        run(
            config(updates=2, failures=Failures(group_deadline_s=4.0), policy_update_s=0.5),
            in_turn(3, 5),
            rule=rule,
        )
    assert str(said.value).startswith(
        "group 1 missed its deadline of 4 s 1000 times since the last update, and was tried again each time,"
        " at 4003 s, 1 of 2 updates are done. The trainer waits for a batch: 0 rollouts are queued"
    )


def test_one_that_is_tried_again_while_others_are_trained_is_no_loop():
    # two slots: one prompt is never in time, all others are
    rule = Staleness(admission=always, replacement="same_prompt")
    result = run(
        config(slots=2, updates=3000, failures=Failures(group_deadline_s=4.0), policy_update_s=0.5),
        Lengths(lambda prompt, _member: 5 if prompt == 0 else 3),
        rule=rule,
    )
    rows = result.log.rollouts.to_pandas()
    assert (rows[rows.prompt_id == 0].reason == "group_deadline").sum() > 1000
    assert set(rows[rows.prompt_id > 0].status) <= {"trained", "queued", "in_flight"}
