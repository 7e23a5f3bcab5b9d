"""Nothing is lost, nothing is counted twice, and every second of every resource is busy or idle."""

from itertools import pairwise

import numpy as np
import pytest
import simpy

from simulator.config import BoundedLag, DropByAge, Sync, Unbounded
from simulator.ledger import Ledger, LedgerError
from simulator.pipeline.pipeline import Pipeline
from simulator.pipeline.workload import DrawnWorkload, UpdateResult
from simulator.world.decoding import FixedSpeed
from simulator.world.drawn import DrawnLengths
from simulator.world.lengths import Exponential, Fixed
from tests.simulator.runs import Lengths, column, config, in_turn, simulate


def test_the_rows_of_the_log_add_up_to_the_ledger():
    result = simulate(
        lengths=Exponential(mean_tokens=20),
        slots=12,
        group_size=2,
        rollouts_per_update=4,
        updates=50,
        policy_update_s=9.0,
        staleness=DropByAge(max_lag_updates=2),
        queue_capacity_rollouts=8,
    )
    rows = result.log.rollouts.to_pandas()
    assert sorted(rows.rollout_id) == list(range(result.ledger.generated_rollouts))
    found = rows.groupby("status").action_tokens.agg(["count", "sum"])
    for state in found.index:
        assert tuple(found.loc[state]) == (result.ledger.rollouts[state], result.ledger.tokens[state])
    assert found["sum"].sum() == result.ledger.generated_tokens
    by_reason = rows.dropna(subset="reason").groupby("reason").action_tokens.agg(["count", "sum"])
    assert set(by_reason.index) == {"too_old", "queue_full"}
    for reason in by_reason.index:
        assert tuple(by_reason.loc[reason]) == result.ledger.dropped_by_reason[reason]


def test_segments_cover_every_token_of_every_finished_rollout():
    result = simulate(lengths=Exponential(mean_tokens=20), slots=9, updates=60, policy_update_s=4.0)
    rows = result.log.rollouts.to_pandas().dropna(subset="finished_s").set_index("rollout_id").sort_index()
    segments = result.log.segments.to_pandas()
    assert (segments.groupby("rollout_id").tokens.sum() == rows.action_tokens).all()
    assert (segments.groupby("rollout_id").version.min() == rows.oldest_version).all()
    assert (segments.groupby("rollout_id").version.max() == rows.last_version).all()
    assert np.allclose(segments.groupby("rollout_id").end_s.max(), rows.finished_s)


def test_every_state_of_an_unfinished_rollout_is_named():
    # two slots, groups of 2, one batch in training: stop at 6.5 s
    result = simulate(
        workload=Lengths(lambda prompt, member: 2 if prompt < 4 else 2 + member),
        slots=2,
        group_size=2,
        rollouts_per_update=2,
        policy_update_s=100.0,
        until_s=10.5,
    )
    status = dict(
        zip(column(result, "rollouts", "rollout_id"), column(result, "rollouts", "status"), strict=True)
    )
    assert [status[i] for i in range(11)] == ["training"] * 2 + ["queued"] * 6 + [
        "waiting",
        "in_flight",
        "in_flight",
    ]
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert rows.loc[8, "finished_s"] == 10
    assert rows.loc[[8], ["group_ready_s", "enqueued_s", "consumed_s"]].isna().all(axis=None)
    assert rows.loc[[9, 10], ["finished_s", "first_version"]].isna().all(axis=None)


@pytest.mark.parametrize("ticks", [3, 10, 1000])
def test_an_end_is_exclusive_whatever_rounding_makes_of_the_sum(ticks):
    # D05: a rollout is a tick of a tenth of a second; ten of them sum to 0.9999999999999999, three to
    # 0.30000000000000004. In [0, n / 10) n ticks begin, and the last of them ends outside.
    result = simulate(
        lengths=Fixed(tokens=1),
        engine=FixedSpeed(seconds_per_token=0.1),
        policy_update_s=1e6,
        staleness=Unbounded(),
        until_s=ticks / 10,
    )
    assert result.ledger.generated_rollouts == ticks
    assert result.ledger.rollouts["in_flight"] == 1
    assert result.end_s == ticks / 10
    rows = result.log.intervals.to_pandas()
    assert rows.end_s.max() == ticks / 10


def test_what_is_due_well_before_the_end_happens():
    result = simulate(lengths=Fixed(tokens=1), engine=FixedSpeed(seconds_per_token=1.0), until_s=1.0 + 1e-6)
    assert column(result, "rollouts", "finished_s")[0] == 1.0


def test_a_lost_rollout_is_an_error_with_all_numbers():
    ledger = Ledger()
    ledger.start(7)
    ledger.start(5)
    with pytest.raises(LedgerError, match="training gave away"):
        ledger.move("training", "trained", 1, 7)


def test_a_count_that_was_tampered_with_is_found_at_the_next_event():
    # B23: the numbers of a real case, 6,690,949 = 6,536,199 + 154,750
    ledger = Ledger(checks_always=True)
    ledger.start(6_536_199)
    ledger.start(154_750)
    ledger.move("in_flight", "waiting", 2, 6_690_949)
    ledger.drop("waiting", "too_old", 1, 154_750)
    assert ledger.tokens["waiting"] == 6_536_199
    ledger.tokens["waiting"] -= 1
    with pytest.raises(LedgerError, match=r"6690950 tokens.*6536198.*154750"):
        ledger.start(1)


def test_the_run_compares_the_ledger_with_what_lies_where():
    class Loses(Lengths):
        def train(self, update):
            del pipeline.engines[0].heap[0]
            return super().train(update)

    workload = Loses(lambda prompt, _member: (3, 50)[min(prompt, 1)])
    pipeline = Pipeline(simpy.Environment(), config(slots=2, updates=1), workload)
    with pytest.raises(
        LedgerError, match=r"\(1, 50\) rollouts and tokens are in_flight, but .*'in_flight': 2"
    ):
        pipeline.run()


def busy_and_idle(result, resource):
    rows = sorted(
        (r for r in result.log.intervals.to_pylist() if r["resource"] == resource), key=lambda r: r["start_s"]
    )
    spent = {"busy": 0.0, "idle": 0.0}
    for row in rows:
        spent[row["state"]] += row["end_s"] - row["start_s"]
    assert all(before["end_s"] == after["start_s"] for before, after in pairwise(rows))
    assert (rows[0]["start_s"], rows[-1]["end_s"]) == (0.0, result.end_s)
    return spent


def test_trainer_and_slots_of_a_synchronous_run_by_hand():
    # 3 s of generation and 2 s of training, 4 times
    result = simulate(staleness=Sync())
    assert busy_and_idle(result, "trainer") == {"busy": 8, "idle": 12}
    assert busy_and_idle(result, "engine-0/slot-0") == {"busy": 12, "idle": 8}


@pytest.mark.parametrize("staleness", [Sync(), BoundedLag(eta_batches=1), Unbounded()])
def test_busy_and_idle_fill_every_resource_and_agree_with_the_rollouts(staleness):
    result = simulate(
        slots=6,
        engines=2,
        lengths=Exponential(mean_tokens=9),
        rollouts_per_update=4,
        updates=30,
        policy_update_s=3.0,
        push_s=1.0,
        staleness=staleness,
    )
    slots = [busy_and_idle(result, f"engine-{e}/slot-{i}") for e in range(2) for i in range(3)]
    rows = result.log.rollouts.to_pandas()
    decoding = (rows.finished_s.fillna(result.end_s) - rows.started_s).sum()
    assert sum(slot["busy"] for slot in slots) == pytest.approx(decoding)
    assert sum(slot["idle"] for slot in slots) == pytest.approx(6 * result.end_s - decoding)
    assert busy_and_idle(result, "trainer")["busy"] == pytest.approx(30 * 4.0)
    assert set(rows.engine) == {0, 1}


def test_a_saturated_slot_is_one_interval():
    # compact: 100 rollouts that follow each other without a gap are one row
    result = simulate(lengths=Fixed(tokens=1), slots=2, updates=50, policy_update_s=0.5)
    rows = [row for row in result.log.intervals.to_pylist() if row["resource"] == "engine-0/slot-1"]
    assert len(rows) == 1


def test_each_rollout_is_trained_once_and_the_trainer_waits():
    # B34: a trainer 30 times faster than its producer
    result = simulate(policy_update_s=0.1, updates=20)
    ids = [
        i
        for i, s in zip(
            column(result, "rollouts", "rollout_id"), column(result, "rollouts", "status"), strict=True
        )
        if s == "trained"
    ]
    assert ids == list(range(20))
    assert column(result, "updates", "train_start_s") == [3.0 * (i + 1) for i in range(20)]


def test_rewards_and_metrics_reach_the_log():
    class Learner(Lengths):
        def train(self, update):
            return UpdateResult(
                metrics={"loss": update.version / 2}, rewards=[r.rollout_id * 10.0 for r in update.rollouts]
            )

    result = simulate(workload=Learner(lambda *_: 3), updates=2)
    assert column(result, "updates", "loss") == [0, 0.5]
    assert column(result, "rollouts", "reward")[:2] == [0, 10]


def test_rewards_for_other_rollouts_are_refused():
    class Learner(Lengths):
        def train(self, _update):
            return UpdateResult(rewards=[1.0, 2.0])

    with pytest.raises(ValueError, match="2 rewards for 1 rollouts"):
        simulate(workload=Learner(lambda *_: 3))


def test_a_length_of_zero_is_refused_where_it_is_used():
    with pytest.raises(ValueError, match=r"prompt 2, member 0: a length of 0 tokens"):
        simulate(workload=in_turn(3, 3, 0))


def test_the_error_of_a_workload_ends_the_run_with_that_error():
    # B18: a dead producer is not a hung trainer
    def dies(prompt, _member):
        if prompt == 2:
            raise OSError("disk full")
        return 3

    with pytest.raises(OSError, match="disk full"):
        simulate(workload=Lengths(dies))


def test_adding_an_idle_process_changes_nothing():
    # D15: a monitor and a second, never used entity
    settings = config(lengths=Exponential(mean_tokens=9), slots=5, updates=40)

    def run_beside(*others):
        env = simpy.Environment()
        for other in others:
            env.process(other(env))
        lengths = DrawnLengths(settings.lengths, settings.seed)
        return Pipeline(env, settings, DrawnWorkload(lengths)).run().log.digest()

    def monitor(env):
        while True:
            yield env.timeout(3.0)

    def idler(env):
        yield env.event()

    assert run_beside() == run_beside(monitor) == run_beside(idler, monitor, idler)
