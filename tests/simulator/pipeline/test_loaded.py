"""A load-dependent engine against a world that goes token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run
from simulator.rules.admission import always
from simulator.rules.on_sync import OnSync
from simulator.rules.staleness import Staleness
from simulator.world.decoding import LoadDependent
from simulator.world.lengths import Fixed
from tests.simulator.pipeline import stepper
from tests.simulator.runs import Lengths


def pipeline(lengths, *, slots, load, prompt_tokens, batch, update_s, push_s, updates, rule=None, **more):
    config = PipelineConfig(
        slots=slots,
        engine=load,
        prompt_tokens=prompt_tokens,
        rollouts_per_update=batch,
        updates=updates,
        policy_update_s=update_s,
        push_s=push_s,
        lengths=Fixed(tokens=1),
        **more,
    )
    return run(config, Lengths(lambda prompt, _member: lengths[prompt % len(lengths)]), rule=rule)


@st.composite
def worlds(draw):
    prompt_tokens = draw(st.integers(0, 6))
    lengths = draw(st.lists(st.integers(1, 15), min_size=3, max_size=12))
    smallest = prompt_tokens + max(lengths)
    capacity = draw(st.none() | st.integers(smallest, 4 * smallest))
    load = LoadDependent(
        step_fixed_s=draw(st.sampled_from([0.013, 0.11])),
        step_s_per_rollout=draw(st.sampled_from([0.0, 0.0171])),
        step_s_per_kv_token=draw(st.sampled_from([0.0, 0.00317])),
        prefill_s_per_token=draw(st.sampled_from([0.0, 0.00713])),
        kv_capacity_tokens=capacity,
    )
    return {
        "lengths": lengths,
        "slots": draw(st.integers(1, 6)),
        "load": load,
        "prompt_tokens": prompt_tokens,
        "batch": draw(st.integers(1, 4)),
        "update_s": draw(st.sampled_from([0.07310317, 0.3170539, 1.9371713])),
        "push_s": draw(st.sampled_from([0.0, 0.0911237])),
        "updates": draw(st.integers(1, 8)),
    }


@settings(deadline=None, max_examples=150)
@given(worlds(), st.sampled_from(["keep", "recompute", "restart"]), st.booleans())
def test_token_by_token_gives_the_same_lives(world, running, pauses):
    load = world["load"]
    rule = Staleness(admission=always, on_sync=OnSync(running=running, pauses_engines=pauses))
    log = pipeline(**world, rule=rule).log
    lives, publishes = stepper.simulate(
        world["lengths"],
        slots=world["slots"],
        a=load.step_fixed_s,
        b=load.step_s_per_rollout,
        c=load.step_s_per_kv_token,
        prefill=load.prefill_s_per_token,
        prompt_tokens=world["prompt_tokens"],
        capacity=load.kv_capacity_tokens,
        batch=world["batch"],
        update_s=world["update_s"],
        push_s=world["push_s"],
        updates=world["updates"],
        running=running,
        pauses=pauses,
    )
    assert log.updates.column("published_s").to_pylist() == pytest.approx(publishes, abs=1e-6)
    rows = log.rollouts.to_pandas().set_index("rollout_id").sort_index()
    made = {i: [] for i in rows.index}
    for row in log.segments.to_pandas().sort_values(["rollout_id", "start_token"]).itertuples():
        assert row.start_token == len(made[row.rollout_id])
        made[row.rollout_id] += [row.version] * row.tokens
    end_s = publishes[-1]
    for life in lives:
        if life.started_s > end_s - 1e-6:
            continue  # starts with the last publish, where the run ends
        row = rows.loc[life.id]
        assert row.prompt_id == life.prompt
        assert row.started_s == pytest.approx(life.started_s, abs=1e-6)
        if life.finished_s is not None:
            assert row.finished_s == pytest.approx(life.finished_s, abs=1e-6)
            assert made[life.id] == life.versions
        elif row.status == "dropped":
            assert made[life.id] == life.versions
        else:
            assert np.isnan(row.finished_s)
