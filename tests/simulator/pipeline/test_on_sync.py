"""What a push does to what runs: timelines small enough to draw on paper. A token takes a second."""

import pytest

from simulator.rules import selection
from simulator.rules.admission import always
from simulator.rules.eviction import drop_by_age
from simulator.rules.on_sync import (
    OnSync,
    abort_and_restart,
    abort_and_resume,
    drain,
    keep,
    pull_when_idle,
    rolling,
)
from simulator.rules.staleness import Staleness
from simulator.world.lengths import Exponential
from tests.simulator.runs import Lengths, column, in_turn, simulate, trained


def pushed(on_sync, *tokens, **changes):
    rule = Staleness(admission=always, on_sync=on_sync)
    fields = {"push_s": 1.0, "updates": 3, **changes}
    return simulate(workload=in_turn(*tokens), rule=rule, **fields)


def life(result, rollout_id):
    """Start, end, and (version, tokens) in order."""
    row = result.log.rollouts.to_pandas().set_index("rollout_id").loc[rollout_id]
    pieces = result.log.segments.to_pandas().query(f"rollout_id == {rollout_id}").sort_values("start_token")
    return row.started_s, row.finished_s, list(zip(pieces.version, pieces.tokens, strict=True))


def spells(result, resource):
    rows = [row for row in result.log.intervals.to_pylist() if row["resource"] == resource]
    return [(r["cause"], r["start_s"], r["end_s"]) for r in sorted(rows, key=lambda r: r["start_s"])]


# rollout 0 is taken at 3, trained until 5.5 and pushed until 6.5; rollout 1 began at 3 and needs 5 s


def test_keep_swaps_the_weights_between_two_steps():
    result = pushed(keep(), 3, 5, policy_update_s=2.5)
    assert life(result, 1) == (3, 8, [(0, 4), (1, 1)])  # the step under way at 6.5 ends under version 0


def test_keep_may_stand_still_for_the_push():
    result = pushed(keep(pauses_engines=True), 3, 5, policy_update_s=2.5)
    assert life(result, 1) == (3, 9, [(0, 3), (1, 2)])  # 2.5 tokens, a pause of 1 s, and 2.5 more
    first, pause, *_ = spells(result, "engine-0/slot-0")
    assert (first, pause) == (("decode", 0, 5.5), ("sync", 5.5, 6.5))
    times = result.log.segments.to_pandas().query("rollout_id == 1")
    assert list(times.end_s) == [7, 9]


def test_resuming_keeps_whole_tokens_and_loses_the_one_under_way():
    result = pushed(abort_and_resume(), 3, 5, policy_update_s=2.5)
    assert life(result, 1) == (3, 9.5, [(0, 2), (1, 3)])
    assert result.ledger.rollouts["dropped"] == 0


def test_restarting_drops_what_was_made_and_begins_from_the_prompt():
    # after the push at 6.5 the same prompt starts again, and with it nothing of version 0
    result = pushed(abort_and_restart(), 3, 5, policy_update_s=2.5, until_s=12.0)
    start_s, end_s, pieces = life(result, 1)
    assert (start_s, pieces) == (3, [(0, 2)])
    assert end_s != end_s
    assert life(result, 2) == (6.5, 11.5, [(1, 5)])
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert list(rows.loc[[1, 2], "prompt_id"]) == [1, 1]
    assert tuple(rows.loc[1, ["status", "reason", "consumed_s", "action_tokens"]]) == (
        "dropped",
        "restarted",
        6.5,
        2,
    )
    # 3 and 2 tokens, and what is running: 5 of the second attempt, 5 of the next prompt
    assert result.ledger.generated_tokens == 15
    assert result.ledger.dropped_by_reason == {"restarted": (1, 2)}


def test_draining_waits_for_the_slowest_and_starts_nothing():
    result = pushed(drain(), 3, 9, 4, slots=2, updates=2)
    assert life(result, 2) == (3, 7, [(0, 4)])
    assert spells(result, "trainer")[:4] == [
        ("no_batch", 0, 3),
        ("policy_update", 3, 5),
        ("engines_busy", 5, 9),
        ("push", 9, 10),
    ]
    assert column(result, "rollouts", "started_s").count(10) == 2
    assert spells(result, "engine-0/slot-0")[:2] == [("decode", 0, 7), ("sync", 7, 10)]
    assert spells(result, "engine-0/slot-1")[:2] == [("decode", 0, 9), ("sync", 9, 10)]


def test_rolling_loads_one_engine_after_another():
    result = pushed(rolling(), 3, 10, 6, slots=2, engines=2, updates=1, until_s=20.0)
    assert column(result, "updates", "published_s") == [7]
    result = pushed(rolling(), 3, 10, 6, slots=2, engines=2, updates=2)
    assert life(result, 2) == (3, 10, [(0, 2), (1, 4)])  # engine 0 stands still from 5 to 6
    assert life(result, 1) == (0, 11, [(0, 6), (1, 4)])  # engine 1 from 6 to 7
    assert ("sync", 5, 6) in spells(result, "engine-0/slot-0")
    assert ("sync", 6, 7) in spells(result, "engine-1/slot-0")


def test_an_idle_engine_pulls_the_newest_weights_and_the_trainer_waits_for_none():
    result = pushed(pull_when_idle(), 3, 10, 4, slots=2, engines=2, updates=5)
    # versions 1 at 5 and 2 at 9, when its data of 7 is trained; no push in the trainer's time
    assert column(result, "updates", "published_s")[:2] == [5, 9]
    assert "push" not in {cause for cause, *_ in spells(result, "trainer")}
    assert life(result, 2) == (3, 7, [(0, 4)])
    assert life(result, 3) == (8, 12, [(1, 4)])  # engine 0 was empty at 7 and loaded until 8
    assert life(result, 1) == (0, 10, [(0, 10)])
    assert life(result, 4) == (11, 15, [(2, 4)])  # engine 1 skips version 1
    assert spells(result, "engine-0/slot-0")[:2] == [("decode", 0, 7), ("sync", 7, 8)]


def test_colocated_engines_stand_still_while_the_trainer_works():
    rule = Staleness(admission=always, colocated=True)
    result = simulate(workload=in_turn(3, 5), rule=rule, slots=2, push_s=1.0, updates=2)
    assert life(result, 1) == (0, 8, [(0, 3), (1, 2)])
    assert spells(result, "engine-0/slot-1")[:3] == [
        ("decode", 0, 3),
        ("colocated", 3, 6),
        ("decode", 6, 8),
    ]
    # the slot that rollout 0 left at 3 starts nothing before the weights are there
    assert life(result, 2)[0] == 6


@pytest.mark.parametrize("on_sync", [drain(), rolling(), pull_when_idle()])
def test_colocated_engines_can_only_be_loaded_together(on_sync):
    with pytest.raises(ValueError, match="colocated engines"):
        simulate(rule=Staleness(admission=always, on_sync=on_sync, colocated=True))


def test_an_idle_engine_has_nothing_to_abort():
    with pytest.raises(ValueError, match="nothing to restart"):
        simulate(rule=Staleness(admission=always, on_sync=OnSync(running="restart", engines="when_idle")))


@pytest.mark.parametrize(("replacement", "next_prompt"), [("new_prompt", 2), ("same_prompt", 1)])
def test_a_running_rollout_may_be_too_old_to_go_on(replacement, next_prompt):
    # version 1 arrives at 5: rollout 1 began at 3 and holds 2 tokens of version 0
    rule = Staleness(admission=always, abort=drop_by_age(0), replacement=replacement)
    result = simulate(workload=in_turn(3, 9, 9), rule=rule, until_s=6.0)
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert tuple(rows.loc[1, ["status", "reason", "consumed_s"]]) == ("dropped", "aborted", 5)
    assert life(result, 1)[2] == [(0, 2)]
    assert tuple(rows.loc[2, ["started_s", "prompt_id"]]) == (5, next_prompt)
    assert result.ledger.dropped_by_reason == {"aborted": (1, 2)}


@pytest.mark.parametrize(("replacement", "prompts"), [("new_prompt", {2, 3}), ("same_prompt", {1, 2})])
def test_an_aborted_group_goes_as_a_whole(replacement, prompts):
    # groups of 2 on 2 slots: prompt 0 until 2; of prompt 1 one member waits from 3 on, the other would run on
    lengths = {0: (2, 2), 1: (1, 9)}
    rule = Staleness(admission=always, abort=drop_by_age(0), replacement=replacement)
    result = simulate(
        workload=Lengths(lambda prompt, member: lengths.get(prompt, (50, 50))[member]),
        rule=rule,
        slots=2,
        group_size=2,
        rollouts_per_update=2,
        until_s=4.5,
    )
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    # version 1 arrives at 4; prompt 1 has a whole member and 2 tokens of the other, prompt 2 one token
    assert result.ledger.dropped_by_reason == {"aborted": (3, 1 + 2 + 1)}
    assert set(rows[rows.status == "in_flight"].prompt_id) <= prompts
    assert list(rows[rows.reason == "aborted"].prompt_id) == [1, 2, 1]


def test_a_group_too_old_to_train_may_be_tried_again():
    rule = Staleness(admission=always, age_limit=drop_by_age(0), replacement="same_prompt")
    result = simulate(workload=in_turn(2), rule=rule, slots=2, policy_update_s=3.0, updates=3)
    rows = result.log.rollouts.to_pandas()
    too_old = rows[rows.reason == "too_old"]
    assert len(too_old) > 0
    retried = rows[rows.prompt_id.isin(too_old.prompt_id) & (rows.status != "dropped")]
    assert set(retried.prompt_id) <= set(too_old.prompt_id)
    assert rows.prompt_id.max() < rows.rollout_id.max()


def test_restarts_starve_what_is_longer_than_the_sync_interval():
    # a push every 4 s from 5 s on: what is longer never ends, unless it may resume
    def longest(on_sync):
        rule = Staleness(admission=always, on_sync=on_sync)
        result = simulate(
            lengths=Exponential(mean_tokens=6),
            rule=rule,
            slots=64,
            rollouts_per_update=4,
            policy_update_s=4.0,
            updates=10,
            seed=5,
        )
        return result.log.rollouts.to_pandas().dropna(subset="finished_s").action_tokens.max(), result.ledger

    restarted, ledger = longest(OnSync(running="restart"))
    resumed, _ = longest(OnSync(running="recompute"))
    assert restarted <= 5 < 20 < resumed
    dropped, tokens = ledger.dropped_by_reason["restarted"]
    assert ledger.rollouts["dropped"] == dropped > 0
    assert ledger.tokens["dropped"] == tokens


def test_a_selection_may_take_the_newest_first():
    # one slot, a rollout a second, 5 s an update: by then 5 are queued, and the last of them is freshest
    rule = Staleness(admission=always, selection=selection.freshest_first)
    result = simulate(workload=in_turn(1), rule=rule, policy_update_s=5.0, updates=4)
    fifo = simulate(workload=in_turn(1), rule=Staleness(admission=always), policy_update_s=5.0, updates=4)
    assert list(trained(fifo).rollout_id) == [0, 1, 2, 3]
    # version 1 arrives at 6: rollout 6 is the first of it, and is there at 7; at 6 all are of version 0
    assert list(trained(result).rollout_id)[:3] == [0, 1, 6]


def test_in_order_waits_for_the_long_one():
    rule = Staleness(admission=always, selection=selection.in_order)
    result = simulate(workload=in_turn(1, 9, 1), rule=rule, slots=2, policy_update_s=0.5, updates=3)
    assert list(trained(result).rollout_id) == [0, 1, 2]
    assert column(result, "updates", "train_start_s") == [1, 9, 9.5]


def test_a_choice_that_is_no_batch_is_refused():
    rule = Staleness(admission=always, selection=lambda *_: [0])
    with pytest.raises(ValueError, match=r"selection chose \[0\]: not 2 rollouts"):
        simulate(rule=rule, rollouts_per_update=2)
