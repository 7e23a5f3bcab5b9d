import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.lag_split import PARTS, held_version, lag_split, split_means
from simulator.eventlog import Recorder
from tests.analysis.factories import run_of


def publishes(recorder: Recorder, *, every_s: float = 10.0, batches: int = 5, updates: int = 1) -> None:
    """A batch of updates is published every so many seconds; the updates end a second apart before it."""
    for batch in range(1, batches + 1):
        at_s = batch * every_s
        for j in range(updates):
            recorder.add_update(
                version=(batch - 1) * updates + j + 1,
                train_end_s=at_s - updates + j + 1,
                published_s=at_s,
                rollouts=0,
                tokens=0,
            )


def split_of(recorder: Recorder) -> dict[str, int]:
    run = run_of(recorder)
    (row,) = lag_split(run.rollouts, run.updates).to_dict("records")
    return {name: row[name] for name in (*PARTS, "lag")}


def test_each_stage_has_what_was_published_in_it():
    # Weights 1, 2, 3, 4 at 10, 20, 30, 40 s. Decodes from 5 to 25 s, waits to 35 s, is taken at 45 s.
    recorder = Recorder()
    publishes(recorder, batches=4)
    recorder.add_rollout(
        rollout_id=0, status="trained", oldest_version=0, consumed_version=4,
        started_s=5.0, finished_s=25.0, group_ready_s=35.0, enqueued_s=35.0, consumed_s=45.0,
    )  # fmt: skip
    assert split_of(recorder) == {
        "generation": 2, "group_wait": 1, "queue": 1, "trainer_ahead": 0, "lag": 4,
    }  # fmt: skip


def test_a_batch_of_four_updates_ages_what_never_waited():
    # Fresh when the batch was taken; the third update on it starts two versions later.
    recorder = Recorder()
    publishes(recorder, batches=2, updates=4)
    recorder.add_rollout(
        rollout_id=0, status="trained", oldest_version=4, consumed_version=6,
        started_s=10.0, finished_s=12.0, group_ready_s=12.0, enqueued_s=12.0, consumed_s=12.0,
    )  # fmt: skip
    assert split_of(recorder) == {
        "generation": 0, "group_wait": 0, "queue": 0, "trainer_ahead": 2, "lag": 2,
    }  # fmt: skip


def test_at_one_instant_completions_come_before_publishes_and_publishes_before_the_trainer_takes():
    # Finished at 10 s, when weights 1 arrive; taken at 20 s, when weights 2 have just arrived.
    recorder = Recorder()
    publishes(recorder, batches=2)
    recorder.add_rollout(
        rollout_id=0, status="trained", oldest_version=0, consumed_version=2,
        started_s=0.0, finished_s=10.0, group_ready_s=10.0, enqueued_s=10.0, consumed_s=20.0,
    )  # fmt: skip
    assert split_of(recorder) == {
        "generation": 0, "group_wait": 0, "queue": 2, "trainer_ahead": 0, "lag": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("times", "stage"),
    [
        ({}, "generation"),
        ({"finished_s": 12.0}, "group_wait"),
        ({"finished_s": 12.0, "group_ready_s": 13.0, "enqueued_s": 13.0}, "queue"),
    ],
)
def test_one_that_was_dropped_early_aged_in_the_stage_that_it_was_in(times, stage):
    recorder = Recorder()
    publishes(recorder)
    recorder.add_rollout(
        rollout_id=0, status="dropped", oldest_version=1, consumed_version=4, started_s=11.0, consumed_s=45.0,
        **times,
    )  # fmt: skip
    expected = {**dict.fromkeys(PARTS, 0), stage: 3, "lag": 3}
    assert split_of(recorder) == expected


def test_an_engine_that_holds_weights_before_all_do_makes_no_part_negative():
    # Weights 1 were published at 10 s, when the last engine had them; this one sampled with them at 9 s.
    recorder = Recorder()
    publishes(recorder, batches=1)
    recorder.add_rollout(
        rollout_id=0, status="trained", oldest_version=0, last_version=1, consumed_version=1,
        started_s=0.0, finished_s=9.0, group_ready_s=9.0, enqueued_s=9.0, consumed_s=9.5,
    )  # fmt: skip
    assert split_of(recorder) == {
        "generation": 1, "group_wait": 0, "queue": 0, "trainer_ahead": 0, "lag": 1,
    }  # fmt: skip


def test_one_that_a_push_cut_off_aged_while_it_decoded():
    # Dropped at 10 s, by the very push that made it old.
    recorder = Recorder()
    publishes(recorder, batches=1, updates=4)
    recorder.add_rollout(
        rollout_id=0, status="dropped", reason="restarted", oldest_version=0, consumed_version=4,
        started_s=0.0, consumed_s=10.0,
    )  # fmt: skip
    assert split_of(recorder) == {
        "generation": 4, "group_wait": 0, "queue": 0, "trainer_ahead": 0, "lag": 4,
    }  # fmt: skip


def test_engines_hold_the_newest_of_what_was_published_and_nothing_that_never_was():
    updates = pd.DataFrame({"version": [1, 2, 3, 4], "published_s": [10.0, 20.0, 20.0, np.nan]})
    times = np.array([0.0, 10.0, 20.0, 99.0, np.nan])
    assert held_version(updates, times, side="before").tolist() == [0, 0, 1, 3, 3]
    assert held_version(updates, times, side="from").tolist() == [0, 1, 3, 3, 3]


def test_a_rollout_newer_than_the_trainer_is_an_error():
    recorder = Recorder()
    recorder.add_rollout(rollout_id=3, status="trained", oldest_version=2, consumed_version=1)
    run = run_of(recorder)
    with pytest.raises(ValueError, match=r"rollout 3 .* version 1 .* version 2"):
        lag_split(run.rollouts, run.updates)


moments = st.none() | st.integers(0, 60)


@given(
    st.lists(st.tuples(moments, moments, moments, st.integers(0, 6), st.integers(0, 9)), max_size=12),
    st.integers(1, 4),
)
def test_the_parts_are_never_negative_and_sum_to_the_lag_whatever_was_logged(rows, updates):
    recorder = Recorder()
    publishes(recorder, updates=updates)
    for rollout, (finished, ready, taken, oldest, lag) in enumerate(rows):
        recorder.add_rollout(
            rollout_id=rollout, status="trained", oldest_version=oldest, consumed_version=oldest + lag,
            finished_s=finished, group_ready_s=ready, consumed_s=taken,
        )  # fmt: skip
    run = run_of(recorder)
    split = lag_split(run.rollouts, run.updates)
    parts = split[list(PARTS)].to_numpy(dtype=int)
    assert (parts >= 0).all()
    assert parts.sum(axis=1).tolist() == split["lag"].tolist() == [row[-1] for row in rows]
    for row in split_means(split).to_dict("records"):
        assert sum(row[name] for name in PARTS) == pytest.approx(row["lag"])
