"""Validation on the same engines: who waits for whom, which version answers, and what lag does."""

import numpy as np
import pytest

from analysis.measures.validation_rollouts import by_request
from simulator.config import BoundedLag, OneStepOff, Sync, Unbounded
from simulator.rules.on_sync import abort_and_restart
from simulator.rules.staleness import Staleness, unbounded
from simulator.world.lengths import Exponential
from tests.simulator.runs import column, lags, simulate, trained

AT_FIVE = {"validate_every_updates": 5, "validation_rollouts": 1}


def validated(result):
    rows = result.log.rollouts.to_pandas()
    return rows[rows.status == "validation"]


def test_weights_that_move_on_meanwhile_make_a_result_mixed():
    # Case B27. One slot, 3 s a rollout, updates end at 5, 8, 11, 14, 17. The slot is free at 18, the next
    # update ends at 20: the third token of the validation, at 21, is version 6's.
    result = simulate(updates=7, validation_blocks_trainer=False, **AT_FIVE)
    (row,) = validated(result).to_dict("records")
    assert (row["started_s"], row["finished_s"], row["consumed_version"]) == (18, 21, 5)
    (answer,) = by_request(result.log.rollouts.to_pandas()).to_dict("records")
    assert (answer["version"], answer["sampled_by"]) == (5, "mixed 5-6")
    # it is nobody's training data, and takes 3 s of the slot
    assert column(result, "updates", "train_end_s") == [5, 8, 11, 14, 17, 20, 26]
    assert len(trained(result)) == 7


def test_a_trainer_that_waits_for_the_answers_keeps_them_of_one_version():
    result = simulate(updates=7, **AT_FIVE)
    (answer,) = by_request(result.log.rollouts.to_pandas()).to_dict("records")
    assert (answer["version"], answer["sampled_by"], answer["ended_s"]) == (5, "5", 21)
    rows = result.log.intervals.to_pandas()
    waits = rows[rows.cause == "validation"]
    assert waits[["resource", "state", "start_s", "end_s"]].to_numpy().tolist() == [
        ["trainer", "idle", 17, 21]
    ]


@pytest.mark.parametrize(("priority", "starts"), [("before", [9, 12, 15]), ("among", [9, 15, 21])])
def test_before_rollouts_for_training_or_in_turn_with_them(priority, starts):
    # asked for at 8, after the second update; the slot is free at 9, 12, ...
    result = simulate(
        updates=6,
        validate_every_updates=2,
        validation_rollouts=3,
        validation_priority=priority,
        validation_blocks_trainer=False,
        until_s=22.0,
    )
    rows = validated(result)
    assert sorted(rows[rows.consumed_version == 2].started_s) == starts


@pytest.mark.parametrize("rule", [Sync(), OneStepOff(), BoundedLag(eta_batches=1), Unbounded()])
@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("environments", [None, 12])
def test_it_is_counted_apart_and_never_trained(rule, blocks, environments):
    result = simulate(
        slots=8,
        group_size=2,
        rollouts_per_update=4,
        updates=40,
        lengths=Exponential(mean_tokens=20.0),
        staleness=rule,
        environments=environments,
        validate_every_updates=10,
        validation_rollouts=13,
        validation_blocks_trainer=blocks,
    )
    rows, ledger = result.log.rollouts.to_pandas(), result.ledger
    own = validated(result)
    assert ledger.rollouts["validation"] == len(own)
    assert ledger.tokens["validation"] == own.action_tokens.sum()
    assert ledger.generated_tokens == rows.action_tokens.sum()
    assert ledger.rollouts["trained"] == 160
    assert own.prompt_id.lt(0).all()
    assert own.prompt_id.is_unique
    assert set(own.consumed_version) <= {10, 20, 30, 40}
    if blocks:
        assert len(own) == 52
        assert (own.first_version == own.consumed_version).all()
        assert (own.last_version == own.consumed_version).all()
    # groups of training rollouts are whole, and in the order in which prompts come
    assert trained(result).groupby("group_id").size().eq(2).all()


def test_a_sync_run_is_the_same_but_for_the_time_that_validation_takes():
    settings = {"slots": 4, "rollouts_per_update": 4, "updates": 20, "staleness": Sync()}
    settings |= {"lengths": Exponential(mean_tokens=20.0)}
    plain = simulate(**settings)
    also = simulate(validate_every_updates=5, validation_rollouts=6, **settings)
    names = ["prompt_id", "member", "action_tokens", "consumed_version", "oldest_version"]
    ours, theirs = (trained(run).sort_values("prompt_id")[names] for run in (also, plain))
    assert ours.to_numpy().tolist() == theirs.to_numpy().tolist()


def test_an_answer_that_a_push_cut_off_is_asked_for_again():
    rule = Staleness(admission=unbounded().admission, on_sync=abort_and_restart())
    result = simulate(
        updates=30, slots=2, validation_blocks_trainer=False, rule=rule, policy_update_s=1.7, **AT_FIVE
    )
    rows = validated(result)
    again = rows[rows.reason == "restarted"]
    assert len(again) > 0
    # an attempt that was cut off is followed by another, of the same prompt and for the same version
    assert set(again.prompt_id) <= set(rows[rows.reason.isna()].prompt_id)
    assert (rows[rows.reason.isna()].action_tokens == 3).all()
    assert result.ledger.tokens["validation"] == rows.action_tokens.sum()


@pytest.mark.parametrize(("rule", "blocks"), [(Unbounded(), False), (BoundedLag(eta_batches=4), True)])
def test_lag_rises_for_some_updates_after_a_validation(rule, blocks):
    """Rollouts under way grow old while the slots that would replace them answer validation."""
    result = simulate(
        slots=64,
        rollouts_per_update=16,
        updates=1200,
        policy_update_s=150.0,
        lengths=Exponential(mean_tokens=1000.0),
        staleness=rule,
        validate_every_updates=40,
        validation_rollouts=128,
        validation_blocks_trainer=blocks,
    )
    by_update = lags(result).reshape(1200, 16).mean(1)
    since = by_update[40:].reshape(-1, 40)  # one row a validation
    before, after = since[:, -5:].mean(1), since[:, 1:4].mean(1)
    rise = after - before
    assert rise.mean() > 0.5
    assert rise.mean() > 3 * rise.std(ddof=1) / np.sqrt(len(rise))
    # and it passes: what starts afterwards is fresh
    assert since[:, 6:12].mean() < after.mean()
