"""Reported faults of runs that die, lose tokens, swallow bad numbers or do not repeat."""

import math
import os
import subprocess
import sys
import warnings
from itertools import repeat

import numpy as np
import pytest
import simpy
from pydantic import ValidationError

from simulator.config import DropByAge, PipelineConfig
from simulator.ledger import STATES
from simulator.pipeline.pipeline import Pipeline, run
from simulator.pipeline.workload import DrawnWorkload
from simulator.rules.admission import always
from simulator.rules.on_sync import abort_and_restart, pull_when_idle
from simulator.rules.staleness import Staleness
from simulator.stalled import StalledError
from simulator.world.amounts import Amount
from simulator.world.decoding import FixedSpeed, LoadDependent
from simulator.world.drawn import DrawnLengths
from simulator.world.failures import Failures, Faults
from simulator.world.lengths import Exponential, Pareto
from tests.simulator.runs import Lengths, config, in_turn, simulate


class WorkerError(Exception):
    """Not made of its message alone, as many are not."""

    def __init__(self, worker: int, why: str) -> None:
        super().__init__(f"worker {worker}: {why}")


@pytest.mark.parametrize(
    "changes",
    [{}, {"rule": Staleness(admission=always, on_sync=pull_when_idle())}, {"environments": 2}],
)
def test_when_all_workers_die_the_run_ends_then_and_with_their_error(changes):
    """B18: all workers raise from 5 s on; the trainer has trained once and would wait for ever."""
    env = simpy.Environment()

    def dies(_prompt, _member):
        if env.now >= 5:
            raise WorkerError(3, "out of memory") from OSError("mmap")
        return 5

    rule = changes.pop("rule", None)
    settings = config(slots=2, updates=20, policy_update_s=100.0, **changes)
    with pytest.raises(WorkerError, match="worker 3: out of memory") as caught:
        Pipeline(env, settings, Lengths(dies), rule=rule).run()
    assert env.now == 5
    chain = [caught.value]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    assert isinstance(chain[-1], OSError)


def test_the_account_balances_at_every_event():
    """B23: generated = trained + dropped + buffered + in flight, in integers, whatever goes wrong."""
    settings = config(
        slots=6,
        engines=2,
        group_size=2,
        rollouts_per_update=4,
        updates=40,
        lengths=Exponential(mean_tokens=9),
        staleness=DropByAge(max_lag_updates=1),
        queue_capacity_rollouts=8,
        push_s=1.0,
        failures=Failures(
            engine_crash_every_s=60.0, engine_restart_s=5.0, environment_failure_probability=0.1
        ),
    )
    rule = Staleness(
        admission=always, age_limit=lambda lag: lag > 1, overflow=lambda queued: max(0, queued - 8),
        on_sync=abort_and_restart(),
    )  # fmt: skip
    env = simpy.Environment()
    workload = DrawnWorkload(DrawnLengths(settings.lengths, settings.seed, settings.group_size))
    pipeline = Pipeline(env, settings, workload, rule=rule)
    ledger, events = pipeline.ledger, 0
    step = env.step

    def counted():
        nonlocal events
        step()
        events += 1
        assert ledger.generated_tokens == sum(ledger.tokens[state] for state in STATES)
        assert ledger.generated_rollouts == sum(ledger.rollouts[state] for state in STATES)

    env.step = counted
    result = pipeline.run()
    assert events > 500
    rows = result.log.rollouts.to_pandas()
    assert rows.action_tokens.sum() == ledger.generated_tokens
    assert rows[rows.status == "trained"].action_tokens.sum() == result.log.updates.to_pandas().tokens.sum()
    assert {"too_old", "restarted", "environment_failed"} <= set(ledger.dropped_by_reason)


SCRIPT = """
import hashlib
from simulator.config import PipelineConfig
from simulator.pipeline.pipeline import run
from simulator.rules.admission import always
from simulator.rules.selection import uniformly_random
from simulator.rules.staleness import Staleness
from simulator.world.failures import Failures
from simulator.world.lengths import DeepSeekR1
rule = Staleness(admission=always, selection=uniformly_random)
for seed in (7, 8):
    log = run(PipelineConfig(slots=8, engines=2, group_size=2, rollouts_per_update=4, updates=20, seed=seed,
        lengths=DeepSeekR1(), failures=Failures(environment_failure_probability=0.1)), rule=rule).log
    rows = log.rollouts.select(["prompt_id", "status"]).to_pylist()
    prompts = [row["prompt_id"] for row in rows if row["status"] == "trained"]
    print(hashlib.sha256(repr(prompts).encode()).hexdigest(), log.digest())
"""


@pytest.mark.slow
def test_a_seed_is_the_whole_run_in_any_process():
    """B31, D14: PYTHONHASHSEED 0 to 5, batches drawn at random from the queue, failing environments."""
    path = os.pathsep.join(sys.path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in range(6)
    ]
    said = [process.communicate()[0].split() for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert all(one == said[0] for one in said)
    prompts, trace, other_prompts, other_trace = said[0]
    assert prompts != other_prompts
    assert trace != other_trace


NO_TIME = [math.nan, math.inf, -math.inf, -1.0]


@pytest.mark.parametrize("bad", NO_TIME)
@pytest.mark.parametrize("model", [PipelineConfig, FixedSpeed, LoadDependent, Failures])
def test_a_duration_that_is_none_is_refused_by_its_name(model, bad):
    """D07: NaN, -1 and infinity, in whatever takes time."""
    durations = [
        n for n in model.model_fields if n.endswith("_s") or "_s_per_" in n or n.startswith("seconds")
    ]
    assert durations
    given = {"lengths": {"kind": "fixed", "tokens": 1}} if model is PipelineConfig else {}
    for name in durations:
        with pytest.raises(ValidationError) as caught:
            model.model_validate({**given, name: bad})
        assert {error["loc"][0] for error in caught.value.errors()} == {name}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 1.5])
def test_a_length_that_is_none_is_refused_where_it_is_used(bad):
    """D07: a workload of one's own says 1, 2, and then that."""
    with pytest.raises((ValueError, TypeError)):
        simulate(workload=in_turn(1, 2, bad))


@pytest.mark.parametrize("bad", NO_TIME)
@pytest.mark.parametrize("kind", ["outages", "stalls"])
def test_a_fault_at_no_time_is_refused(kind, bad):
    """D07: the faults of one's own."""
    spells = repeat((bad, 1.0))
    faults = Faults(outages=lambda _: spells) if kind == "outages" else Faults(stalls=spells)
    with pytest.raises(ValueError, match="spells must be finite and not negative"):
        run(config(updates=4), in_turn(3), rule=Staleness(admission=always), faults=faults)


@pytest.mark.parametrize(
    "make",
    [lambda: Pareto(shape=1, minimum_tokens=1000), lambda: Amount(mean=1.0, law="pareto", tail_index=1.5)],
)
def test_an_average_that_never_settles_is_warned_of(make):
    """D21"""
    with pytest.warns(UserWarning, match="infinite; set"):
        make()


def test_quantiles_and_caps_settle_where_a_mean_does_not():
    """D21: Pareto of shape 1: the median is 2.0, the mean grows with the sample, a cap makes it finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        law = Pareto(shape=1, minimum_tokens=1000)
    rng = np.random.default_rng(0)
    samples = [law.quantile(rng.random(10**power)) / 1000 for power in (3, 5, 6)]
    assert [np.median(sample) for sample in samples] == pytest.approx([2.0] * 3, rel=0.1)
    capped = Pareto(shape=1, minimum_tokens=1000, max_tokens=10**6).quantile(rng.random(10**6)) / 1000
    # truncated at 1000 the mean is 1000 ln(1000) / 999 = 6.9147; a cap clips, which adds P(L > 1000) * 1000
    truncated = capped[capped < 1000]
    assert truncated.mean() == pytest.approx(6.9147, rel=0.02)
    assert capped.mean() == pytest.approx(1 + np.log(1000), rel=0.02)
    assert samples[-1].mean() > 1.3 * capped.mean()


def test_events_without_progress_end_the_run():
    """D22: a rollout longer than the time between two pushes begins again for ever, and the run says so."""
    rule = Staleness(admission=always, on_sync=abort_and_restart())
    given = config(
        slots=2,
        group_size=2,
        rollouts_per_update=2,
        updates=10,
        stall_limit_s=50.0,
        failures=Failures(engine_crash_every_s=5.0, engine_restart_s=1.0),
    )
    with pytest.raises(StalledError, match="no update for 50 s"):
        run(given, Lengths(lambda _prompt, member: (1, 60)[member]), rule=rule)
