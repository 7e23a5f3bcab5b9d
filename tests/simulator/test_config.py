"""Bad configurations are refused, with the field's path."""

import pytest
import tyro
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simulator.config import BoundedLag, DropByAge, PipelineConfig, staleness_rule
from simulator.rules.on_sync import OnSync, abort_and_resume
from simulator.systems.gated import NemoInOrder
from simulator.world.lengths import Exponential
from tests.simulator.rules.counts import counts
from tests.simulator.runs import config

LENGTHS = {"kind": "exponential", "mean_tokens": 100.0}


def faults(**changes):
    with pytest.raises(ValidationError) as caught:
        PipelineConfig.model_validate({"lengths": LENGTHS, **changes})
    return [(".".join(map(str, e["loc"])), e["msg"]) for e in caught.value.errors()]


@pytest.mark.parametrize("name", ["policy_update_s", "critic_update_s", "push_s"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, "soon"])
def test_times_are_finite_and_not_negative(name, bad):
    # D07
    assert [path for path, _ in faults(**{name: bad})] == [name]


@pytest.mark.parametrize(
    "name", ["slots", "engines", "group_size", "rollouts_per_update", "updates_per_batch", "updates"]
)
@pytest.mark.parametrize("bad", [0, -3, 1.5, None])
def test_counts_are_whole_and_positive(name, bad):
    assert [path for path, _ in faults(**{name: bad})] == [name]


def test_unknown_keys_are_refused_wherever_they_are():
    assert [path for path, _ in faults(slot=3)] == ["slot"]
    assert [path for path, _ in faults(lengths={**LENGTHS, "median": 3})] == ["lengths.exponential.median"]
    rule = {"kind": "drop_by_age", "max_lag": 3}
    paths = [path for path, _ in faults(staleness=rule)]
    assert paths == ["staleness.drop_by_age.max_lag_updates", "staleness.drop_by_age.max_lag"]


def test_unknown_kinds_are_refused():
    ((path, message),) = faults(staleness={"kind": "eventually"})
    assert path == "staleness"
    assert "'sync', 'one_step_off', 'bounded_lag', 'drop_by_age', 'unbounded'" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": 10, "engines": 3}, r"slots \(10\) is not a multiple of engines \(3\)"),
        ({"group_size": 3, "rollouts_per_update": 8}, r"rollouts_per_update \(8\) .* group_size \(3\)"),
        ({"updates": 5, "updates_per_batch": 2}, r"updates \(5\) .* updates_per_batch \(2\)"),
        ({"rollouts_per_update": 8, "queue_capacity_rollouts": 7}, r"\(7\) is less than a batch of 8"),
        ({"rollouts_per_update": 8, "max_outstanding_rollouts": 7}, r"\(7\) is less than a batch of 8"),
        (
            {"updates_per_batch": 3, "updates": 3, "staleness": DropByAge(max_lag_updates=1)},
            "accepts no rollout",
        ),
        # Until the push the engines hold version 0, and the third batch can only meet data two updates old.
        (
            {"batches_per_push": 3, "updates": 3, "staleness": DropByAge(max_lag_updates=1)},
            r"\(2\): the last update before a push accepts no rollout",
        ),
        ({"critic_update_s": 1.0}, "no effect with critic_updates 0"),
        ({"length_correlation": 0.5}, "no effect with group_size 1"),
        (
            {"keys_at_push": "recompute", "staleness": {"kind": "laminar"}},
            r"keys_at_push \(recompute\) has no effect with staleness.kind 'laminar'",
        ),
    ],
)
def test_impossible_combinations_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        config(**changes)


def test_a_queue_that_drops_does_not_go_with_batches_of_named_groups():
    ((_, said),) = faults(staleness={"kind": "nemo_in_order"}, queue_capacity_rollouts=512)
    assert "queue_capacity_rollouts (512) may drop what nemo_in_order's next batch waits for" in said
    config(staleness=NemoInOrder(), queue_capacity_rollouts=512, queue_full="block")


def test_a_configuration_survives_json():
    before = config(staleness=BoundedLag(eta_batches=2), lengths=Exponential(mean_tokens=3.5, max_tokens=9))
    assert PipelineConfig.model_validate_json(before.model_dump_json()) == before


@given(st.integers(1, 4), st.integers(0, 100))
def test_a_cap_on_what_is_outstanding_joins_the_rule(batches, outstanding):
    rule = staleness_rule(config(rollouts_per_update=4, max_outstanding_rollouts=4 * batches))
    seen = counts(submitted=outstanding, outstanding=outstanding)
    assert rule.admission(seen) == 4 * batches - outstanding


def test_what_a_push_does_can_be_set_beside_the_rule_and_is_the_rules_otherwise():
    bound = BoundedLag(eta_batches=2)
    assert staleness_rule(config(staleness=bound)).on_sync == OnSync()
    both = staleness_rule(config(staleness=bound, keys_at_push="recompute", engines_stand_still=True))
    assert both.on_sync == OnSync(running="recompute", pauses_engines=True)
    theirs = {"kind": "areal"}
    assert staleness_rule(config(staleness=theirs)).on_sync == abort_and_resume()
    own = staleness_rule(config(staleness=theirs, engines_stand_still=False)).on_sync
    assert own == OnSync(running="recompute")


def test_flags_come_from_the_types():
    flags = ["--slots", "8", "--push-s", "0.5", "lengths:lognormal", "--lengths.mean-tokens", "20"]
    flags += ["--lengths.sd-tokens", "9", "staleness:bounded-lag", "--staleness.eta-batches", "2"]
    found = tyro.cli(PipelineConfig, args=flags)
    assert (found.slots, found.push_s, found.lengths.sd_tokens) == (8, 0.5, 9)
    assert found.staleness == BoundedLag(eta_batches=2)
    assert tyro.cli(PipelineConfig, args=["lengths:deepseek-r1"]).lengths.kind == "deepseek_r1"
