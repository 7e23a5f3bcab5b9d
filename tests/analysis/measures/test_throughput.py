import dataclasses

import pytest

from analysis.measures.throughput import BEGUN, account, check_ledger, ledger, step_rates, throughput
from simulator.eventlog import Recorder
from tests.analysis.factories import learning_run, recorded, run_of, updates_table


def traffic() -> Recorder:
    """In 4 h: 4 trained of 10 tokens each, one dropped of 30, one queued of 5, one in flight at 2 of 50."""
    recorder = recorded([0.1, 0.2, 0.3, 0.4])
    for rollout, status, length, made in (
        (10, "dropped", 30, 30),
        (11, "queued", 5, 5),
        (12, "in_flight", 50, 2),
    ):
        finished = None if status == "in_flight" else 100.0
        recorder.add_rollout(
            rollout_id=rollout,
            status=status,
            action_tokens=length,
            finished_s=finished,
            reason="too old" if status == "dropped" else None,
        )
        recorder.add_segment(rollout_id=rollout, version=0, start_token=0, tokens=made)
    return recorder


def test_rates_by_hand():
    rates = throughput(run_of(traffic()))
    assert rates["hours"] == 4.0
    assert rates["updates_per_hour"] == 1.0
    assert rates["trained_tokens_per_s"] == pytest.approx(40 / 14400)
    assert rates["generated_tokens_per_s"] == pytest.approx(77 / 14400)  # 40 + 30 + 5, and 2 in flight
    assert rates["trained_length_tokens"] == 10
    assert rates["generated_length_tokens"] == pytest.approx(75 / 6)  # finished ones only
    assert rates["length_ratio"] == pytest.approx(10 / 12.5)


def test_tokens_a_second_is_of_each_step_not_of_the_total_so_far():
    # Case B20: 5 steps of 100 tokens and 10 s each; the fault said 50 at step 5.
    updates = updates_table(accuracy=[0.0] * 5).assign(tokens=100)
    updates["train_end_s"] = [10.0, 20.0, 30.0, 40.0, 50.0]
    assert step_rates(updates)["tokens_per_s"].tolist() == [10.0] * 5


def test_every_token_is_accounted_for():
    run = run_of(traffic())
    check_ledger(run)
    table = ledger(run).set_index("fate")
    assert table["tokens"].to_dict() == {"trained": 40, "dropped: too old": 30, "queued": 5, "in_flight": 50}
    assert table["rollouts"].sum() == len(run.rollouts)


def test_the_account_is_a_sum_in_the_order_of_a_rollouts_way():
    table = account(run_of(traffic()))
    assert table["fate"].tolist() == [BEGUN, "trained", "dropped: too old", "queued", "in_flight"]
    assert table["tokens"].tolist() == [125, 40, 30, 5, 50]
    assert table["rollouts"].tolist() == [7, 4, 1, 1, 1]
    assert table["share"].tolist() == pytest.approx([1.0, 0.32, 0.24, 0.04, 0.4])


def test_the_numbers_of_a_published_reconciliation_balance():
    # Case B23: 6,690,949 = 6,536,199 + 154,750.
    recorder = Recorder()
    for rollout, status, tokens in ((0, "trained", 6_536_199), (1, "dropped", 154_750)):
        recorder.add_rollout(rollout_id=rollout, status=status, action_tokens=tokens, finished_s=1.0)
        recorder.add_segment(rollout_id=rollout, version=0, start_token=0, tokens=tokens)
    recorder.add_update(version=1, train_end_s=1.0, rollouts=1, tokens=6_536_199)
    run = run_of(recorder)
    check_ledger(run)
    assert ledger(run)["tokens"].sum() == run.segments["tokens"].sum() == 6_690_949


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("segments", "tokens", 9, "tokens in segments and in rollouts differ"),
        ("updates", "tokens", 9, "trained tokens in updates and in rollouts differ"),
        ("updates", "rollouts", 2, "trained rollouts in updates and in rollouts differ"),
        ("segments", "rollout_id", 99, "tokens of known rollouts and of all segments differ"),
        ("rollouts", "rollout_id", 1, "listed twice"),
        ("rollouts", "status", "lost", "which no account covers"),
    ],
)
def test_one_wrong_number_is_found(table, column, value, message):
    run = learning_run([0.1, 0.2, 0.3])
    broken = getattr(run, table).copy()
    broken.loc[0, column] = value
    with pytest.raises(ValueError, match=message):
        check_ledger(dataclasses.replace(run, **{table: broken}))


def test_a_rollout_in_flight_cannot_have_made_more_than_its_length():
    recorder = traffic()
    recorder.add_segment(rollout_id=12, version=1, start_token=2, tokens=49)
    with pytest.raises(ValueError, match="more tokens than it will have"):
        check_ledger(run_of(recorder))
