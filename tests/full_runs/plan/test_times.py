"""Seconds on paper, by hand; and what the simulation of them must add up to."""

import pytest

from full_runs.configs.ready_gpus import qwen3_06b, qwen3_8b, qwen3_30b_a3b
from full_runs.plan.architecture import PUBLISHED
from full_runs.plan.expected import expected, passes_of, pipeline_of
from full_runs.plan.fits import share_of
from full_runs.plan.times import Passes, decoding, micro_batches, timed, tokens_per_update, update_s

EIGHT, MIXTURE = PUBLISHED["Qwen/Qwen3-8B"], PUBLISHED["Qwen/Qwen3-30B-A3B"]
ONCE = Passes(scored=0, trained=1, checkpointed=False)


def test_passes_in_flops() -> None:
    assert ONCE.flops_a_parameter == 6
    assert Passes(scored=1, trained=2, checkpointed=True).flops_a_parameter == 2 + 2 * 8


def test_an_update_on_one_node_is_computing_alone() -> None:
    waits_s, token_s = update_s(qwen3_8b(), EIGHT, ONCE)
    assert waits_s == 0
    assert token_s == pytest.approx(6 * 8_190_735_360 / (6 * 989e12 * 0.4))


def test_several_nodes_wait_for_the_network_where_it_is_slower() -> None:
    config = qwen3_30b_a3b()
    waits_s, token_s = update_s(config, MIXTURE, ONCE)
    # A micro-batch: weights forward and backward at 2 bytes, gradients at 4; 2/3 come from the other nodes,
    # through 8 GPUs of 50 GB/s, half of which is reached.
    network_s = micro_batches(config) * 8 * MIXTURE.total * (2 / 3) / (8 * 50e9 * 0.5)
    computing_s = token_s * tokens_per_update(config)
    assert network_s > computing_s
    assert waits_s + computing_s == pytest.approx(network_s)


def test_gradients_are_accumulated_over_as_many_pieces_as_tokens_take() -> None:
    config = qwen3_8b()
    pieces = micro_batches(config)
    assert (pieces - 1) * 9216 * 6 < tokens_per_update(config) <= pieces * 9216 * 6
    assert micro_batches(qwen3_8b(tokens_at_once=None)) == 1


def test_one_gpu_for_both_gives_each_half_its_time() -> None:
    model = PUBLISHED["Qwen/Qwen3-0.6B"]
    one, two = qwen3_06b(), qwen3_06b(gpus=2)
    assert update_s(one, model, ONCE)[1] == pytest.approx(2 * update_s(two, model, ONCE)[1])
    share = share_of(one)
    steps = [decoding(config, model, share).step_s_per_kv_token for config in (one, two)]
    assert steps[0] == pytest.approx(2 * steps[1])


def test_the_critics_fits_are_k_updates_as_large_as_the_policys() -> None:
    config = qwen3_8b()
    policy, critic = passes_of(config)
    assert critic is not None
    assert (policy.trained, critic.trained) == (1, 2)
    made = timed(config, EIGHT, share_of(config), policy=policy, critic=critic)
    _, token_s = update_s(config, EIGHT, critic)
    assert made.critic_updates * made.critic_update_s == pytest.approx(token_s * tokens_per_update(config))


def test_the_pipeline_is_the_configurations_own() -> None:
    config = qwen3_30b_a3b()
    made, own = pipeline_of(config, MIXTURE), config.pipeline()
    for name in ("slots", "engines", "group_size", "rollouts_per_update", "updates", "staleness", "seed"):
        assert getattr(made, name) == getattr(own, name)


def test_time_adds_up_and_idleness_is_what_the_trainer_does_not_use() -> None:
    """Rollout-bound: the trainer works for `trainer_s + push_s` of every update."""
    found = expected(qwen3_06b(updates=40), PUBLISHED["Qwen/Qwen3-0.6B"])
    update = 3600 / found.simulated["updates_per_hour"].mean
    busy = (found.trainer_s + found.push_s) / update
    assert found.simulated["trainer_idle"].mean == pytest.approx(1 - busy, abs=0.02)


def test_with_engines_to_spare_an_update_takes_what_the_trainer_takes() -> None:
    plenty = qwen3_8b(gpus=30, engines=24, in_flight=384, updates=24)
    found = expected(plenty, EIGHT)
    update = 3600 / found.simulated["updates_per_hour"].mean
    assert found.simulated["trainer_idle"].mean < 0.02
    assert update == pytest.approx(found.trainer_s + found.push_s, rel=0.03)
    scarce = expected(qwen3_8b(updates=24), EIGHT)
    assert scarce.simulated["trainer_idle"].mean > 0.1
    # The gate lets generation run ahead: the data is older where the trainer is the slower one.
    assert found.simulated["mean_lag_updates"].mean > scarce.simulated["mean_lag_updates"].mean


def test_keys_that_are_kept_are_not_computed_again() -> None:
    kept = expected(qwen3_06b(updates=8, keys_at_push="keep"), PUBLISHED["Qwen/Qwen3-0.6B"])
    again = expected(qwen3_06b(updates=8), PUBLISHED["Qwen/Qwen3-0.6B"])
    assert kept.recompute_s == 0 < again.recompute_s
    assert kept.simulated["updates_per_hour"].mean > again.simulated["updates_per_hour"].mean
