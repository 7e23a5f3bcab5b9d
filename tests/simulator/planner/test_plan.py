"""Small plans, end to end."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from simulator.command_line import BadInputError
from simulator.planner import compare as barrier
from simulator.planner.ask import ask
from simulator.planner.config import PlanConfig
from simulator.planner.layout import Setting, divisor, grid, layout
from simulator.planner.plan import plan, simulations
from simulator.planner.roofline import Model
from simulator.planner.scenarios import frontier_750b, small_team
from simulator.planner.words import WIDTH, comparison_text, plan_text, to_json
from simulator.world.lengths import LogNormal


def tiny(**changes: Any) -> PlanConfig:
    """16 rollouts an update, one engine a GPU."""
    return small_team(
        **{
            "rollouts_per_update": 16,
            "updates_per_batch": 1,
            "group_size": 4,
            "rollout_shares": (0.25, 0.5),
            "in_flight": (16,),
            "bounds_batches": (1, 3),
            "updates": 40,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def found() -> Any:
    return plan(tiny())


def test_every_setting_is_judged(found: Any) -> None:
    assert len(found.outcomes) == 1 + 2 * 1 * 2
    lag = [outcome.numbers["mean_lag_updates"].mean for outcome in found.outcomes]
    assert lag[0] == 0.0  # synchronous, one update a batch
    assert found.knee in found.frontier
    assert found.frontier[0] == 0  # nothing is fresher
    rate = [outcome.numbers["rollouts_per_hour"].mean for outcome in found.outcomes]
    for outcome, rollouts in zip(found.outcomes, rate, strict=True):
        assert rollouts == pytest.approx(16 * outcome.numbers["updates_per_hour"].mean)


def test_areals_gate_holds_the_mean_lag(found: Any) -> None:
    for outcome in found.outcomes[1:]:
        assert outcome.numbers["mean_lag_updates"].mean <= outcome.setting.bound_batches + 0.2


def test_the_same_seed_gives_the_same_plan(found: Any) -> None:
    again, other = plan(tiny()), plan(tiny(seed=5))
    assert to_json("tiny", again, None) == to_json("tiny", found, None)
    assert to_json("tiny", other, None) != to_json("tiny", found, None)


def test_text_fits_a_terminal_and_json_is_strict(found: Any) -> None:
    text = plan_text(found)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "areal's words: max_head_offpolicyness" in text

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads(to_json("tiny", found, None), parse_constant=refuse)
    assert told["regime"] == found.regime
    assert told["settings"][0]["numbers"]["trainer_idle"]["mean"] is None


def test_progress_counts_every_simulation() -> None:
    config, done = tiny(seeds=1, bounds_batches=(1,)), []
    plan(config, advance=lambda: done.append(1))
    assert len(done) == simulations(config) == 3


def test_the_group_barrier_by_order_statistics() -> None:
    """Rollout-bound, so that lag is in flight x tail ratio / batch before the queue."""
    config = tiny(
        model=Model(parameters_total=1e9, parameters_active=1e9, layers=8, kv_bytes_a_token=10_000),
        lengths=LogNormal(mean_tokens=2000, sd_tokens=2000, max_tokens=20_000),
        in_flight=(64,),
        rollout_shares=(0.25,),
        updates=160,
    )
    said: list[int] = []
    found = barrier.compare(config, updates=100, advance=lambda: said.append(1))
    assert len(said) == barrier.simulations(config) == 3 * 2
    assert found.lag_multiplier > 1.2
    group, single, sao = found.fastest
    assert group.numbers["mean_lag_updates"].mean > single.numbers["mean_lag_updates"].mean
    assert sao.hours >= single.hours * 0.98  # a critic costs time, or nothing where the trainer waits
    assert group.gpu_hours == pytest.approx(8 * group.hours)
    assert max(map(len, comparison_text(found).splitlines())) <= WIDTH


def test_the_trainer_is_charged_by_hand() -> None:
    """K critic updates of 6 FLOPs a parameter, and a pass of 2 for its values."""
    setting = Setting(rollout_gpus=2, in_flight=16, bound_batches=1)
    plain, sao = (layout(tiny(log_prob_passes=0, critic_updates=k), setting, seed=0).pipeline for k in (0, 2))
    assert sao.policy_update_s_per_token == pytest.approx(plain.policy_update_s_per_token * 8 / 6)
    assert plain.policy_update_s_per_token == pytest.approx(6 * 7.6e9 / (6 * 312e12 * 0.4))
    tokens = 16 * (150 + 300)
    assert sao.critic_updates == 2
    assert sao.critic_update_s == pytest.approx(tokens * plain.policy_update_s_per_token, rel=0.01)


def test_a_part_of_the_machine_is_the_machine_in_small() -> None:
    config = frontier_750b()
    parts = divisor(config)
    assert parts == 32
    setting = grid(config)[-1]
    whole, part = (layout(config, setting, seed=0, parts=p).pipeline for p in (1, parts))
    assert whole.engines == parts * part.engines
    assert whole.rollouts_per_update == parts * part.rollouts_per_update
    assert whole.engine == part.engine
    assert whole.push_s == part.push_s
    tokens = 10_000
    whole_s, part_s = (
        p.policy_update_s + p.policy_update_s_per_token * p.rollouts_per_update * tokens
        for p in (whole, part)
    )
    assert whole_s == pytest.approx(part_s)


def test_the_small_team_trains_best_in_turn() -> None:
    """One split beside it, the fastest of them: 2 GPUs decode, 6 train."""
    one = {"rollout_shares": (0.25,), "in_flight": (1024,), "bounds_batches": (1,)}
    found = plan(small_team(**one, updates=32, seeds=1))
    assert found.regime == "synchronous best"
    turns, split = (outcome.numbers["rollouts_per_hour"] for outcome in found.outcomes)
    assert turns.mean > split.mean


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machines": 1, "accelerator": "a100", "rollout_shares": (0.5,)}, None),
        ({"system": "laminar"}, "laminar has no staleness bound"),
        ({"system": "sao"}, "group_size is 4"),
        ({"rollouts_per_update": 18}, "not a multiple"),
        ({"gpus_per_engine": 16}, "one engine needs 16 GPUs"),
        ({"in_flight": ()}, "in_flight is empty"),
        ({"updates": 4}, "too few"),
    ],
)
def test_what_cannot_be(changes: dict[str, Any], says: str | None) -> None:
    if says is None:
        with pytest.raises(ValueError, match="no setting is possible: 1 GPUs for the trainer"):
            plan(tiny(**changes))
    else:
        with pytest.raises(ValidationError, match=says):
            tiny(**changes)


def test_the_words_of_a_plan() -> None:
    name, config, options = ask(["frontier-750b", "--machines", "2048", "--system", "prime-rl", "--json"])
    assert (name, config.machines, config.system, options.silent) == ("frontier-750b", 2048, "prime_rl", True)
    assert math.isclose(config.model.parameters_total, 750e9)
    for words, says in (
        ("nowhere", "no experiment 'nowhere'"),
        ("--machines 0", "machines: .* got 0"),
        ("--jobs 0", "jobs must be at least 1, got 0"),
        ("--group-size 1 --compare group,single", "group_size is 1"),
        ("--system slime", "slime has no staleness bound"),
    ):
        with pytest.raises(BadInputError, match=says):
            ask(words.split())
