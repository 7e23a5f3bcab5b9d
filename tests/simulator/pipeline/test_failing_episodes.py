"""Rollouts with environments where engines crash, environments fail and groups run out of time."""

import pytest

from simulator.config import OneStepOff, Sync, Unbounded
from simulator.pipeline.pipeline import run
from simulator.stalled import StalledError
from simulator.systems.aged import KimiPartial, Laminar, Slime
from simulator.systems.gated import Areal, NemoInOrder, Roll, VerlV1Drop
from simulator.world.episodes import Episode, MultiTurn
from simulator.world.failures import Faults
from tests.simulator.pipeline.test_episodes import Episodes
from tests.simulator.pipeline.test_failing_combinations import (
    IN_ORDER_WAITS_FOR_EVER,
    KINDS,
    small,
)
from tests.simulator.runs import config as small_config

SOME = [
    *(Sync(), OneStepOff(), Unbounded()),
    *(Areal(), Roll(), VerlV1Drop(), NemoInOrder(), Slime(), KimiPartial(), Laminar()),
]
"""Every action at a push, and what is aborted."""

LAW = MultiTurn(
    mean_turns=2.0,
    turns_law="geometric",
    most_turns=4,
    observation_tokens={"mean": 3.0, "law": "exponential", "most": 9.0},
    latency_s={"mean": 0.5, "law": "pareto", "tail_index": 1.5, "most": 8.0},
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", SOME, ids=lambda rule: rule.kind)
def test_every_system_goes_on_or_says_who_waits(rule, kind):
    slots = ("kept", "freed")[len(kind) % 2]
    config = small(
        rule,
        KINDS[kind] | ({"group_deadline_s": 25.0} if "group_deadline_s" in KINDS[kind] else {}),
        episode=LAW.model_copy(update={"slot_between_turns": slots}),
        environments=9,
        environment_start_s={"mean": 0.4, "law": "exponential"},
        reward_s=0.2,
        stall_limit_s=1000.0,
        **({"group_size": 1} if rule.kind == "sao" else {}),
    )
    try:
        result = run(config)
    except StalledError:
        assert rule.kind == "nemo_in_order"
        assert kind in (*IN_ORDER_WAITS_FOR_EVER, "deadlines")
        return
    rows = result.log.rollouts.to_pandas()
    pieces = result.log.segments.to_pandas()
    assert result.log.updates.num_rows == config.updates
    assert result.ledger.generated_tokens == rows.action_tokens.sum()
    whole = rows[rows.finished_s.notna() | (rows.status == "dropped")]
    made = pieces.groupby("rollout_id").tokens.sum().reindex(whole.rollout_id, fill_value=0)
    assert (made.to_numpy() == whole.action_tokens.to_numpy()).all()
    ordered = pieces.sort_values(["rollout_id", "start_token"])
    same = ordered.rollout_id.diff() == 0
    assert (ordered.version.diff()[same] >= 0).all()
    assert (ordered.start_s[same] >= ordered.end_s.shift()[same] - 1e-9).all()


def crash_at(*spells):
    return Faults(outages=lambda index: iter(spells) if index == 0 else iter(()))


@pytest.mark.parametrize("slots", ["kept", "freed"])
def test_who_waits_for_a_tool_survives_a_crash(slots):
    # 2 tokens until 2, a tool until 7; the engine is down from 3 to 5. Nothing is lost.
    config = small_config(updates=1, episode=MultiTurn(slot_between_turns=slots))
    result = run(config, Episodes(Episode((2, 3), (1,), (5.0,))), faults=crash_at((3.0, 2.0)))
    (row,) = result.log.rollouts.to_pandas().query("status == 'trained'").to_dict("records")
    assert (row["finished_s"], row["slot_wait_s"]) == (10, 0)


def test_who_comes_back_to_an_engine_that_is_down_goes_to_another():
    # a tool until 7, the first engine down from 3 to 100: the second has a slot
    config = small_config(slots=2, engines=2, updates=1, environments=1, episode=MultiTurn())
    result = run(config, Episodes(Episode((2, 3), (1,), (5.0,))), faults=crash_at((3.0, 97.0)))
    (row,) = result.log.rollouts.to_pandas().query("status == 'trained'").to_dict("records")
    assert (row["engine"], row["finished_s"], row["turns"]) == (1, 10, 2)


def test_an_environment_that_fails_ends_the_episode_in_that_turn():
    # turns of 4, 5 and 6 tokens; it fails after 7: no third turn, no reward
    episode = Episode((4, 5, 6), (1, 2), (1.0, 2.0), start_s=3.0, reward_s=9.0)
    assert episode.cut(7) == Episode((4, 3), (1,), (1.0,), start_s=3.0)
    assert episode.cut(4) == Episode((4,), start_s=3.0)
    assert episode.cut(15) is episode
    faults = Faults(fails_after=lambda place, *_: 7 if place == 0 else None)
    config = small_config(updates=1, episode=MultiTurn())
    result = run(config, Episodes(episode), faults=faults)
    row = result.log.rollouts.to_pandas().set_index("rollout_id").loc[0]
    assert row[["status", "reason", "action_tokens", "turns"]].tolist() == [
        "dropped",
        "environment_failed",
        7,
        2,
    ]
    assert row.finished_s == 3 + 4 + 1 + 3
