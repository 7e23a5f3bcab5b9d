"""Rollouts with turns, by hand; and what holds whatever they do."""

import numpy as np
import pytest

from simulator.config import BoundedLag, Sync, Unbounded
from simulator.pipeline.workload import UpdateResult
from simulator.rules.eviction import drop_by_age
from simulator.rules.on_sync import abort_and_restart, abort_and_resume, drain, keep, pull_when_idle, rolling
from simulator.rules.staleness import Staleness, bounded_lag, unbounded
from simulator.world.decoding import LoadDependent
from simulator.world.episodes import Episode, MultiTurn
from tests.simulator.runs import column, config, simulate, trained

KEPT = MultiTurn(slot_between_turns="kept")
FREED = MultiTurn(slot_between_turns="freed")


class Episodes:
    """A workload whose episodes are given, the last one from there on."""

    def __init__(self, *episodes: Episode) -> None:
        self.episodes = episodes

    def length_tokens(self, prompt, _member):
        return self.episode(prompt, 0).turn_tokens[0]

    def episode(self, prompt, _member):
        return self.episodes[min(prompt, len(self.episodes) - 1)]

    def train(self, _update):
        return UpdateResult()

    def publish(self, version):
        pass


def spells(result, resource="engine-0/slot-0"):
    rows = result.log.intervals.to_pandas()
    own = rows[rows.resource == resource].sort_values("start_s")
    return list(zip(own.state, own.cause, own.start_s, own.end_s, strict=True))


def segments(result, rollout_id):
    rows = result.log.segments.to_pandas()
    own = rows[rows.rollout_id == rollout_id]
    return list(zip(own.version, own.start_token, own.tokens, own.start_s, own.end_s, strict=True))


def test_a_slot_that_is_kept_waits_for_the_tool():
    # start-up 1 s; 2 tokens, 4 s of tool, 3 tokens; reward after 2 s; one update of 2 s
    episode = Episode((2, 3), (7,), (4.0,), start_s=1.0, reward_s=2.0)
    result = simulate(workload=Episodes(episode), episode=KEPT, updates=1)
    assert spells(result)[:4] == [
        ("idle", "environment", 0, 1),
        ("busy", "decode", 1, 3),
        ("idle", "environment", 3, 7),
        ("busy", "decode", 7, 10),
    ]
    assert segments(result, 0) == [(0, 0, 2, 1, 3), (0, 2, 3, 7, 10)]
    row = trained(result).iloc[0]
    assert (row.submitted_s, row.started_s, row.finished_s, row.judged_s) == (0, 1, 10, 12)
    assert (row.group_ready_s, row.consumed_s) == (12, 12)
    assert (row.turns, row.action_tokens, row.observation_tokens) == (2, 5, 7)
    assert (row.environment_s, row.slot_wait_s) == (5, 0)
    assert result.end_s == 14


def test_a_slot_that_is_freed_decodes_another_rollout_meanwhile():
    # A: 2 tokens, 3 s of tool, 2 tokens. B, in the same slot: 4 tokens, from 2 to 6. A is back at 5.
    long, short = Episode((2, 2), (0,), (3.0,)), Episode((4,))
    result = simulate(workload=Episodes(long, short), episode=FREED, environments=2, updates=2)
    rows = trained(result).set_index("rollout_id")
    assert segments(result, 0) == [(0, 0, 2, 0, 2), (0, 2, 2, 6, 8)]
    assert segments(result, 1) == [(0, 0, 4, 2, 6)]
    assert rows.slot_wait_s.to_dict() == {0: 1, 1: 2}
    assert rows.environment_s.to_dict() == {0: 3, 1: 0}


def test_what_comes_back_is_the_first_to_get_a_slot():
    # A is back at 5 and B ends at 6: a third rollout has waited since 2, and starts after A.
    long, short = Episode((2, 2), (0,), (3.0,)), Episode((4,))
    result = simulate(workload=Episodes(long, short), episode=FREED, environments=3, updates=3)
    assert column(result, "rollouts", "rollout_id")[:3] == [1, 0, 2]
    assert segments(result, 2)[0][3] == 8


def test_each_turn_has_the_versions_that_made_it():
    # Two slots. Rollouts of 2 s follow each other in the second, and are trained for 2 s each: versions 1, 2,
    # 3, 4 are there at 4, 6, 8 and 10. The first slot decodes from 0 to 3 and, after 4 s of tool, from 7.
    # The step that ends at 8 is version 2's.
    result = simulate(
        workload=Episodes(Episode((3, 3), (0,), (4.0,)), Episode((2,))), episode=KEPT, slots=2, updates=5
    )
    assert segments(result, 0) == [(0, 0, 3, 0, 3), (2, 3, 1, 7, 8), (3, 4, 2, 8, 10)]
    row = result.log.rollouts.to_pandas().set_index("rollout_id").loc[0]
    assert (row.oldest_version, row.first_version, row.last_version, row.consumed_version) == (0, 0, 3, 4)


@pytest.mark.parametrize("law", [KEPT, FREED])
@pytest.mark.parametrize("engine", [{}, {"engine": LoadDependent(), "policy_update_s": 0.01}])
def test_one_turn_without_waits_is_a_rollout_without_environment(law, engine):
    settings = {"slots": 4, "updates": 40, "lengths": {"kind": "exponential", "mean_tokens": 20}, **engine}
    plain = simulate(**settings).log
    one = simulate(episode=law.model_copy(update={"mean_turns": 1.0}), **settings).log
    assert one.segments.equals(plain.segments)
    assert one.updates.equals(plain.updates)
    assert one.rollouts.select(plain.rollouts.column_names).equals(plain.rollouts)


def test_keys_that_are_kept_need_no_second_prefill():
    # a step 1 s; prompt 10 tokens, prefill 0.1 s a token; 2 tokens, 20 observed, 1 s of tool, 1 token
    engine = LoadDependent(
        step_fixed_s=1.0, step_s_per_rollout=0.0, step_s_per_kv_token=0.0, prefill_s_per_token=0.1
    )
    episode = Episode((2, 1), (20,), (1.0,))
    ends = {}
    for keys in ("kept", "recomputed"):
        law = MultiTurn(keys_between_turns=keys)
        result = simulate(workload=Episodes(episode), episode=law, engine=engine, prompt_tokens=10, updates=1)
        ends[keys] = trained(result).finished_s.item()
    # prefill 1 s, decode 2 s, tool 1 s; then 20 or 32 tokens of prefill and one of decoding
    assert ends == {
        "kept": pytest.approx(1 + 2 + 1 + 2.0 + 1),
        "recomputed": pytest.approx(1 + 2 + 1 + 3.2 + 1),
    }


def test_kept_keys_take_room_and_freed_ones_do_not():
    # 10 tokens fit. A holds 6 while its tool works; B needs 6: it starts at once only if A's are gone.
    engine = LoadDependent(
        step_fixed_s=1.0, step_s_per_rollout=0.0, step_s_per_kv_token=0.0, kv_capacity_tokens=10
    )
    a, b = Episode((6, 1), (0,), (10.0,)), Episode((6,))
    started = {}
    for keys in ("kept", "recomputed"):
        law = MultiTurn(keys_between_turns=keys)
        result = simulate(
            workload=Episodes(a, b), episode=law, engine=engine, slots=1, environments=2, updates=2
        )
        rows = result.log.rollouts.to_pandas().set_index("rollout_id")
        started[keys] = rows.finished_s[1]
    # with A's kept, B fills the engine after 4 tokens, leaves, and comes back when A has ended at 17
    assert started == {"kept": pytest.approx(17 + 2), "recomputed": pytest.approx(12)}


def test_an_episode_that_never_fits_is_refused():
    engine = LoadDependent(kv_capacity_tokens=20)
    with pytest.raises(ValueError, match="needs keys and values of 23 tokens"):
        simulate(workload=Episodes(Episode((2, 1), (20,), (1.0,))), episode=FREED, engine=engine)


def test_restart_throws_away_what_waits_for_a_tool():
    # slot 0: 2 tokens, then a tool that takes 5 s; slot 1: one token, trained by 3 and pushed at once
    rule = Staleness(admission=unbounded().admission, on_sync=abort_and_restart())
    result = simulate(
        workload=Episodes(Episode((2, 2), (0,), (5.0,)), Episode((1,))),
        episode=FREED,
        slots=2,
        updates=1,
        rule=rule,
        push_s=1.0,
    )
    rows = result.log.rollouts.to_pandas().set_index("rollout_id")
    assert rows.loc[0, ["status", "reason", "action_tokens"]].tolist() == ["dropped", "restarted", 2]
    assert result.ledger.dropped_by_reason["restarted"][0] >= 1


ON_SYNC = {
    "keep": keep(),
    "pause": keep(pauses_engines=True),
    "resume": abort_and_resume(),
    "restart": abort_and_restart(),
    "drain": drain(),
    "rolling": rolling(),
    "when idle": pull_when_idle(),
}
ENGINES = {
    "fixed": {},
    "loaded": {"engine": LoadDependent(step_fixed_s=0.5, prefill_s_per_token=0.01), "prompt_tokens": 5},
    "full": {
        "engine": LoadDependent(step_fixed_s=0.5, prefill_s_per_token=0.01, kv_capacity_tokens=130),
        "prompt_tokens": 5,
    },
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("on_sync", ON_SYNC)
@pytest.mark.parametrize("slots", ["kept", "freed"])
@pytest.mark.parametrize("keys", ["kept", "recomputed"])
def test_whatever_is_combined_nothing_is_lost(engine, on_sync, slots, keys):
    law = MultiTurn(
        mean_turns=2.5,
        turns_law="geometric",
        most_turns=4,
        observation_tokens={"mean": 4.0, "law": "exponential", "most": 12.0},
        latency_s={"mean": 4.0, "law": "pareto", "tail_index": 1.5, "most": 60.0},
        slot_between_turns=slots,
        keys_between_turns=keys,
    )
    rule = Staleness(admission=bounded_lag(2).admission, on_sync=ON_SYNC[on_sync], abort=drop_by_age(6))
    settings = config(
        slots=6,
        engines=2,
        environments=9,
        group_size=2,
        rollouts_per_update=4,
        updates=30,
        push_s=0.7,
        policy_update_s=1.3,
        environment_start_s={"mean": 2.0, "law": "exponential"},
        reward_s=0.5,
        episode=law,
        lengths={"kind": "exponential", "mean_tokens": 8.0, "max_tokens": 16},
        validate_every_updates=10,
        validation_rollouts=5,
        validation_blocks_trainer=False,
        **ENGINES[engine],
    )
    result = simulate(rule=rule, until_s=4000.0, **settings.model_dump(exclude={"staleness"}))
    log, ledger = result.log, result.ledger
    rows, pieces = log.rollouts.to_pandas(), log.segments.to_pandas()
    if on_sync != "restart":  # whose long rollouts may never end
        assert log.updates.num_rows == 30
    # every token once, in the ledger as in the log
    assert ledger.generated_tokens == rows.action_tokens.sum()
    assert ledger.generated_rollouts == len(rows)
    made = pieces.groupby("rollout_id").tokens.sum().reindex(rows.rollout_id, fill_value=0).to_numpy()
    whole = rows.finished_s.notna().to_numpy() | (rows.status == "dropped").to_numpy()
    np.testing.assert_array_equal(made[whole], rows.action_tokens[whole])
    assert (pieces.end_s >= pieces.start_s - 1e-9).all()
    # versions never decrease, and a rollout decodes in one place at a time
    ordered = pieces.sort_values(["rollout_id", "start_token"])
    same = ordered.rollout_id.diff() == 0
    assert (ordered.version.diff()[same] >= 0).all()
    assert (ordered.start_s[same] >= ordered.end_s.shift()[same] - 1e-9).all()
    # no more under way than there are environments
    own = rows[rows.status != "validation"]
    start = own.submitted_s.to_numpy()
    end = own.judged_s.fillna(own.consumed_s).fillna(np.inf).to_numpy()
    assert max((np.sum((start <= t) & (end > t)) for t in start), default=0) <= 9
    # the split of a rollout's time
    done = rows[rows.finished_s.notna()]
    assert (done.slot_wait_s >= 0).all()
    own_s = (pieces.end_s - pieces.start_s).groupby(pieces.rollout_id).sum().reindex(done.rollout_id)
    whole_s = done.finished_s - done.submitted_s
    np.testing.assert_allclose(
        own_s.to_numpy() + done.environment_s + done.slot_wait_s, whole_s, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("rule", [Sync(), BoundedLag(eta_batches=1), Unbounded()])
def test_littles_law_holds_with_tools(rule):
    """Mean number under way = rate of admissions times mean time from admission to reward."""
    result = simulate(
        slots=4,
        environments=8,
        rollouts_per_update=4,
        updates=400,
        staleness=rule,
        reward_s=0.5,
        environment_start_s={"mean": 2.0, "law": "exponential"},
        episode=MultiTurn(mean_turns=3, latency_s={"mean": 3.0, "law": "exponential"}),
    )
    rows = result.log.rollouts.to_pandas()
    until = rows.judged_s.fillna(result.end_s)
    times = np.concatenate([until, rows.submitted_s])  # one that ends makes room for one at the same time
    steps = np.repeat([-1, 1], len(rows))[np.argsort(times, kind="stable")]
    times.sort()
    level = np.cumsum(steps)[:-1]
    mean_number = np.sum(level * np.diff(times)) / result.end_s
    rate, mean_time = len(rows) / result.end_s, (until - rows.submitted_s).mean()
    assert mean_number == pytest.approx(rate * mean_time, rel=1e-9)
    assert level.max() <= 8


def test_sync_has_no_lag_with_tools_either():
    result = simulate(
        slots=4,
        rollouts_per_update=4,
        updates=20,
        staleness=Sync(),
        episode=MultiTurn(mean_turns=3, latency_s={"mean": 3.0, "law": "exponential"}),
    )
    rows = trained(result)
    assert (rows.consumed_version == rows.oldest_version).all()
    assert (rows.last_version == rows.oldest_version).all()


@pytest.mark.parametrize("law", [KEPT, FREED])
@pytest.mark.parametrize(
    "engine",
    [
        {},
        {
            "engine": LoadDependent(
                step_fixed_s=0.5, step_s_per_rollout=0.1, step_s_per_kv_token=0.01, prefill_s_per_token=0.05
            ),
            "prompt_tokens": 7,
        },
    ],
)
def test_turns_without_waits_or_observations_are_one_long_answer(law, engine):
    """Keys kept, tools that answer at once: nothing is computed twice and nobody is overtaken."""

    def tokens(prompt):
        return tuple(1 + (7 * prompt + 3 * turn) % 11 for turn in range(1 + prompt % 4))

    class Cut(Episodes):
        def episode(self, prompt, _member):
            own = tokens(prompt)
            return Episode(own, (0,) * (len(own) - 1), (0.0,) * (len(own) - 1))

    class Whole(Episodes):
        def episode(self, prompt, _member):
            return Episode((sum(tokens(prompt)),))

    settings = {"slots": 6, "engines": 2, "rollouts_per_update": 4, "updates": 40, "push_s": 0.3, **engine}
    cut, whole = (simulate(workload=kind(), episode=law, **settings) for kind in (Cut, Whole))
    names = ["rollout_id", "engine", "started_s", "finished_s", "oldest_version", "last_version"]
    ours, theirs = (trained(run).sort_values("rollout_id")[names].to_numpy() for run in (cut, whole))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert cut.end_s == pytest.approx(whole.end_s)
    # and each version made as many tokens of each rollout
    by_version = [
        run.log.segments.to_pandas().groupby(["rollout_id", "version"]).tokens.sum() for run in (cut, whole)
    ]
    own = by_version[0].index.get_level_values(0).isin(ours[:, 0])
    assert by_version[0][own].to_dict() == by_version[1].loc[by_version[0][own].index].to_dict()
