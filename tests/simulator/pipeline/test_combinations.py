"""Whatever rules are combined, on whatever engine: nothing is lost, and time and tokens are covered."""

from itertools import pairwise

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import Pipeline, drawn_lengths, run
from simulator.pipeline.workload import DrawnWorkload
from simulator.rules import selection
from simulator.rules.admission import always, bounded_run_ahead
from simulator.rules.eviction import drop_by_age, keep_all
from simulator.rules.on_sync import OnSync
from simulator.rules.staleness import Staleness
from simulator.world.decoding import FixedSpeed, LoadDependent
from simulator.world.lengths import Exponential, Fixed

engines = st.one_of(
    st.just(FixedSpeed(seconds_per_token=0.25)),
    st.builds(
        LoadDependent,
        step_fixed_s=st.just(0.1),
        step_s_per_rollout=st.sampled_from([0.0, 0.01]),
        step_s_per_kv_token=st.sampled_from([0.0, 0.003]),
        prefill_s_per_token=st.sampled_from([0.0, 0.02]),
        kv_capacity_tokens=st.sampled_from([None, 45, 90]),
    ),
)
selections = st.sampled_from(
    [selection.fifo, selection.oldest_submitted_first, selection.freshest_first, selection.uniformly_random]
)


@st.composite
def rules(draw):
    colocated = draw(st.booleans())
    running = draw(st.sampled_from(["keep", "recompute", "restart", "drain"]))
    which = draw(st.sampled_from(["together", "rolling", "when_idle"]))
    if colocated:
        which = "together"
        running = "keep" if running == "drain" else running
    if which == "when_idle":
        running = "keep"
    return Staleness(
        admission=draw(st.sampled_from([always, bounded_run_ahead(2)])),
        selection=draw(selections),
        age_limit=draw(st.sampled_from([keep_all, drop_by_age(4)])),
        abort=draw(st.sampled_from([keep_all, drop_by_age(3)])),
        replacement=draw(st.sampled_from(["new_prompt", "same_prompt"])),
        on_sync=OnSync(running=running, engines=which, pauses_engines=draw(st.booleans())),
        colocated=colocated,
    )


@st.composite
def pipelines(draw):
    model = draw(engines)
    group_size = draw(st.integers(1, 3))
    count = draw(st.integers(1, 3))
    return PipelineConfig(
        slots=count * draw(st.integers(1, 5)),
        engines=count,
        engine=model,
        prompt_tokens=draw(st.integers(0, 5)) if isinstance(model, LoadDependent) else 0,
        group_size=group_size,
        rollouts_per_update=group_size * draw(st.integers(1, 3)),
        updates=draw(st.integers(1, 12)),
        policy_update_s=draw(st.sampled_from([0.0, 0.7, 3.0])),
        push_s=draw(st.sampled_from([0.0, 0.3])),
        lengths=Exponential(mean_tokens=9, max_tokens=40),
        seed=draw(st.integers(0, 1000)),
    )


@settings(deadline=None, max_examples=200)
@given(pipelines(), rules())
def test_books_balance_at_every_move(config, rule):
    pipeline = Pipeline(simpy.Environment(), config, DrawnWorkload(drawn_lengths(config)), rule=rule)
    pipeline.ledger.checks_always = True
    result = pipeline.run(until_s=300.0)
    rows = result.log.rollouts.to_pandas().set_index("rollout_id").sort_index()
    assert list(rows.index) == list(range(result.ledger.generated_rollouts))
    assert rows.action_tokens.sum() == result.ledger.generated_tokens
    for state, own in rows.groupby("status"):
        assert (len(own), own.action_tokens.sum()) == (
            result.ledger.rollouts[state],
            result.ledger.tokens[state],
        )
    for reason, own in rows.dropna(subset="reason").groupby("reason"):
        assert (len(own), own.action_tokens.sum()) == result.ledger.dropped_by_reason[reason]
    ended = rows[rows.finished_s.notna() | (rows.status == "dropped")]
    pieces = result.log.segments.to_pandas().sort_values(["rollout_id", "start_token"])
    assert (
        pieces.groupby("rollout_id")
        .tokens.sum()
        .reindex(ended.index, fill_value=0)
        .equals(ended.action_tokens)
    )
    for rollout_id, own in pieces.groupby("rollout_id"):
        assert list(own.start_token) == [0, *own.tokens.cumsum()[:-1]]
        assert own.version.is_monotonic_increasing
        assert (own.end_s >= own.start_s).all()
        assert own.start_s.iloc[0] >= rows.loc[rollout_id].started_s
        assert all(a <= b + 1e-9 for a, b in zip(own.end_s, own.start_s[1:], strict=False))
    whole = rows[rows.status == "trained"]
    assert set(whole.groupby("group_id").member.nunique()) <= {config.group_size}
    if rule.on_sync.one_version_a_rollout and rule.on_sync.engines != "rolling":
        assert (whole.first_version == whole.last_version).all()
    intervals = result.log.intervals.to_pandas().sort_values(["resource", "start_s"])
    for resource, own in intervals.groupby("resource"):
        if resource != "trainer":
            assert own.start_s.iloc[0] == 0
            assert own.end_s.iloc[-1] == result.end_s
            assert all(a == b for a, b in zip(own.end_s[:-1], own.start_s[1:], strict=True))


@settings(deadline=None, max_examples=30)
@given(pipelines(), rules())
def test_equal_seeds_give_equal_logs(config, rule):
    first, second = (run(config, rule=rule, until_s=100.0).log.digest() for _ in range(2))
    assert first == second


def test_memory_for_five_serves_fifty():
    # D22: each of 50 needs a fifth of the memory in the end; preemption must not multiply events
    load = LoadDependent(step_fixed_s=1.0, step_s_per_rollout=0.0, kv_capacity_tokens=500)
    config = PipelineConfig(
        slots=50,
        engine=load,
        prompt_tokens=10,
        rollouts_per_update=50,
        updates=1,
        policy_update_s=1.0,
        lengths=Fixed(tokens=90),
        max_outstanding_rollouts=50,
    )
    result = run(config)
    rows = result.log.rollouts.to_pandas().sort_values("rollout_id")[:50]
    assert (rows.status == "trained").all()
    assert rows.finished_s.is_monotonic_increasing  # first in, first out by age
    stints = result.log.segments.to_pandas().rollout_id.isin(rows.rollout_id).sum()
    assert 50 <= stints <= 50 * 4
    # a rollout holds 55 tokens on average, for 90 steps: at least 50 * 55 * 90 / 500 s
    assert 495 <= rows.finished_s.max() <= 900


def test_a_rollout_that_can_never_fit_is_refused():
    load = LoadDependent(kv_capacity_tokens=20)
    config = PipelineConfig(
        slots=2, engine=load, prompt_tokens=10, rollouts_per_update=1, lengths=Fixed(tokens=11)
    )
    with pytest.raises(ValueError, match="needs keys and values of 21 tokens, engine 0 holds 20"):
        run(config)


def test_all_lengths_times_a_hundred_cost_no_more_events():
    def events(scale):
        env = simpy.Environment()
        config = PipelineConfig(
            slots=16,
            engine=LoadDependent(step_s_per_kv_token=0.0),
            rollouts_per_update=8,
            updates=50,
            policy_update_s=0.3 * scale,
            lengths=Fixed(tokens=7 * scale),
        )
        Pipeline(env, config, DrawnWorkload(drawn_lengths(config))).run()
        return next(env._eid)

    assert events(100) <= 1.05 * events(1)


def test_slots_wait_by_cause():
    # two slots, room for one rollout at a time
    load = LoadDependent(step_fixed_s=1.0, step_s_per_rollout=0.0, kv_capacity_tokens=12)
    config = PipelineConfig(
        slots=2, engine=load, prompt_tokens=6, rollouts_per_update=1, updates=2, lengths=Fixed(tokens=5)
    )
    rows = run(config).log.intervals.to_pandas().query("resource == 'engine-0/slot-1'")
    assert set(rows.cause) == {"decode", "kv_full"}  # the slots take turns
    assert all(a.end_s == b.start_s for a, b in pairwise(rows.itertuples()))
