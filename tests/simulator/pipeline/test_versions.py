"""Which version made which token: by hand, and two ways of cutting that must agree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.pipeline.fixed_speed import FixedSpeedEngine
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.views import Rollout
from simulator.pipeline.weights import cut_at_publishes, cut_many_at_publishes
from tests.simulator.runs import in_turn, simulate


def cut(position, tokens, *publishes, unit=1.0):
    versions = [0, *(version for version, _ in publishes)]
    cuts = cut_at_publishes(position, tokens, unit, [0.0, *(at for _, at in publishes)])
    return [(versions[publish], start, size) for publish, start, size in cuts]


@pytest.mark.parametrize(
    ("push_s", "tokens_of_version_0"),
    [
        (10.5, 1),  # in the middle of the first step: it ends under the old weights
        (11.0, 1),  # at the end of the first step: that token is done, the next is new
        (12.2, 3),
        (13.0, 3),
        (14.0, 4),  # at the end of the last step
    ],
)
def test_the_step_under_way_ends_under_the_old_weights(push_s, tokens_of_version_0):
    new = 4 - tokens_of_version_0
    expected = [(0, 0, tokens_of_version_0)] + ([(1, tokens_of_version_0, new)] if new else [])
    assert cut(10.0, 4, (1, push_s)) == expected


def test_two_pushes_within_one_step_leave_no_token_to_the_first():
    assert cut(0.0, 4, (1, 1.2), (2, 1.7)) == [(0, 0, 2), (2, 2, 2)]


def test_rounding_does_not_move_a_tie():
    # 0.1 * 3 is 0.30000000000000004: a push at 0.3 falls on the end of the third step
    assert cut(0.0, 5, (1, 0.1 + 0.2), unit=0.1) == [(0, 0, 3), (1, 3, 2)]
    assert cut(0.0, 5, (1, 0.3), unit=0.1) == [(0, 0, 3), (1, 3, 2)]


def test_segments_have_the_times_of_their_tokens():
    # half a second a token; a publish at 10.7 falls into the second step of a rollout that starts at 10
    table = Rollouts(1)
    engine = FixedSpeedEngine(0, table, [], seconds_per_token=0.5)
    table.clocks = [engine]
    engine.publish(3, 1.0)
    rollout_id = table.add(0, 4, 0, 10.0, engine.latest)
    table.position.append(engine.begin(rollout_id, 0, 4, 0, 10.0))
    engine.publish(5, 10.7)
    table.finished_s[0], table.after[0] = 12.0, engine.latest
    assert table.segments(0) == ((3, 0, 2, 10.0, 11.0), (5, 2, 2, 11.0, 12.0))
    assert Rollout(table, 0).oldest_version == 3


def test_lags_of_a_rollout_that_saw_three_versions():
    # B03: versions 2, 4, 6 with 2, 2 and 8 tokens, trained at 6
    cuts = cut_at_publishes(0.0, 12, 1.0, [0.0, 2.0, 4.0])
    lag = {6 - [2, 4, 6][publish]: tokens for publish, _, tokens in cuts}
    assert lag == {4: 2, 2: 2, 0: 8}
    assert sum(age * tokens for age, tokens in lag.items()) / 12 == 1.0
    assert np.mean(list(lag)) == 2.0


def test_weights_change_under_a_running_rollout():
    # updates end at 2 + 2 = 4, 6, ...; a rollout of 9 tokens from 0 on sees versions 1 (4 s), 2 (6), 3 (8)
    workload = in_turn(9, 2, 2, 2, 2)
    result = simulate(workload=workload, slots=2, updates=4)
    rows = result.log.segments.to_pandas().query("rollout_id == 0")
    assert list(zip(rows.version, rows.start_token, rows.tokens, strict=True)) == [
        (0, 0, 4),
        (1, 4, 2),
        (2, 6, 2),
        (3, 8, 1),
    ]
    long = result.log.rollouts.to_pandas().set_index("rollout_id").loc[0]
    assert (long.first_version, long.oldest_version, long.last_version) == (0, 0, 3)


def test_a_rollout_that_ends_at_a_publish_is_old_and_one_that_starts_then_is_new():
    # training ends and publishes at 5, when a rollout ends, too: slots started at 0, 3 and 5
    result = simulate(workload=in_turn(3, 2, 4), updates=3)
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert (rows.loc[1, "finished_s"], rows.loc[1, "last_version"]) == (5, 0)
    assert (rows.loc[2, "started_s"], rows.loc[2, "first_version"]) == (5, 1)


times = st.lists(st.integers(1, 400), min_size=0, max_size=6).map(sorted)


@settings(deadline=None, max_examples=200)
@given(
    starts=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), min_size=1, max_size=8),
    publishes=times,
    step=st.sampled_from([0.1, 0.25, 1.0, 3.0]),
)
def test_cutting_many_is_cutting_each(starts, publishes, step):
    positions = np.array([0.0, *(0.1 * time for time in publishes)])
    started = np.array([0.1 * s for s, _ in starts])
    tokens = np.array([n for _, n in starts])
    first = np.searchsorted(positions, started, side="right") - 1
    last = np.searchsorted(positions, started + tokens * step, side="right") - 1
    many = cut_many_at_publishes(positions, started, tokens, step, first, last)
    one_by_one = [
        (i, first[i] + publish, start, size)
        for i in range(len(starts))
        for publish, start, size in cut_at_publishes(
            started[i], tokens[i], step, positions[first[i] : last[i] + 1]
        )
    ]
    assert list(zip(*many, strict=True)) == one_by_one
    assert all(sum(many.tokens[many.stint == i]) == n for i, n in enumerate(tokens))


def test_cutting_nothing_gives_nothing():
    none = np.array([], dtype=np.int64)
    cuts = cut_many_at_publishes(np.zeros(1), none.astype(float), none, 1.0, none, none)
    assert len(cuts.publish) == 0
