"""Seconds by hand, and what must grow with what."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.planner import published, roofline
from simulator.planner.accelerators import H100, H200, Achieved
from simulator.planner.roofline import Model

PERFECT = Achieved(
    training_flops=1.0,
    prefill_flops=1.0,
    decode_flops=1.0,
    memory_bandwidth=1.0,
    network_dense=1.0,
    network_experts=1.0,
    memory_usable=1.0,
    layer_overhead_s=0.0,
)
SEVEN = Model(parameters_total=7e9, parameters_active=7e9, layers=32, hidden=4096)
MIXTURE = Model(parameters_total=30e9, parameters_active=3e9, layers=48, kv_bytes_a_token=98_304)

models = st.builds(
    lambda total, share, kv: Model(
        parameters_total=total, parameters_active=total * share, layers=32, kv_bytes_a_token=kv
    ),
    st.floats(1e9, 2e10),
    st.floats(0.02, 1.0),
    st.floats(1e4, 1e6),
)


def test_a_7b_on_one_h100_by_hand() -> None:
    engine = roofline.decoding(SEVEN, H100, PERFECT, gpus=1, rollouts=64)
    assert engine.step_fixed_s == pytest.approx(14e9 / 3.35e12)  # 4.18 ms: all weights, once a step
    assert engine.step_fixed_s == pytest.approx(0.00418, rel=1e-2)
    assert engine.step_s_per_rollout == pytest.approx(14e9 / 989e12)  # 2 FLOPs a parameter
    assert engine.prefill_s_per_token == pytest.approx(14e9 / 989e12)
    # 2 vectors of 4,096 numbers of 2 bytes in each of 32 layers: half a megabyte a token
    assert engine.step_s_per_kv_token == pytest.approx(524_288 / 3.35e12)
    assert engine.kv_capacity_tokens == int((80e9 - 14e9) / 524_288)


def test_training_by_hand() -> None:
    # 6 FLOPs a parameter and 2 for old log-probs: 56 GFLOPs a token.
    seconds = roofline.trainer_s_per_token(SEVEN, H100, PERFECT, gpus=8, flops_a_parameter=8)
    assert seconds == pytest.approx(56e9 / (8 * 989e12))
    # 112 GB of state into 64 GB of each GPU: two.
    assert roofline.trainer_gpus_needed(SEVEN, H100, PERFECT) == 2
    assert roofline.trainer_gpus_needed(SEVEN, H100, PERFECT, copies=2) == 4


def test_a_push_by_hand() -> None:
    assert roofline.push_s(SEVEN, H100, PERFECT, senders=8) == pytest.approx(14e9 / 400e9)
    # 112 GB out and in again, an eighth each, at 25 GB/s
    assert roofline.switch_s(SEVEN, PERFECT, gpus=8) == pytest.approx(2 * 14 / 25)


def test_weights_that_a_mixture_reads() -> None:
    assert roofline.weights_read_bytes(MIXTURE, 1) == pytest.approx(6e9)
    assert roofline.weights_read_bytes(MIXTURE, 2) == pytest.approx(60e9 * (1 - 0.9**2))
    assert roofline.weights_read_bytes(MIXTURE, 1000) == pytest.approx(60e9)
    assert roofline.weights_read_bytes(SEVEN, 1) == roofline.weights_read_bytes(SEVEN, 50) == 14e9


@given(st.integers(2, 500))
def test_the_secant_is_exact_at_both_ends(n: int) -> None:
    engine = roofline.decoding(MIXTURE, H200, PERFECT, gpus=1, rollouts=n)
    for rollouts in (1, n):
        expected = roofline.weights_read_bytes(MIXTURE, rollouts) / 4.8e12 + rollouts * 6e9 / 989e12
        assert engine.step_fixed_s + rollouts * engine.step_s_per_rollout == pytest.approx(expected)


@given(models, st.integers(1, 300), st.integers(0, 10**6))
def test_more_gpus_are_never_slower(model: Model, n: int, held: int) -> None:
    def step_s(gpus: int) -> float:
        engine = roofline.decoding(model, H200, Achieved(), gpus=gpus, rollouts=n)
        return engine.step_fixed_s + n * engine.step_s_per_rollout + held * engine.step_s_per_kv_token

    assert step_s(2) <= step_s(1)
    assert roofline.kv_capacity_tokens(model, H200, Achieved(), gpus=2) > roofline.kv_capacity_tokens(
        model, H200, Achieved(), gpus=1
    )
    train = [
        roofline.trainer_s_per_token(model, H200, Achieved(), gpus=g, flops_a_parameter=6) for g in (1, 2)
    ]
    assert train[1] <= train[0]


@given(models, st.integers(1, 300), st.floats(1.01, 10))
def test_more_keys_and_values_are_slower_and_fewer_fit(model: Model, n: int, factor: float) -> None:
    more = model.model_copy(update={"kv_bytes_a_token": model.kv_bytes * factor})
    one, other = (roofline.decoding(m, H200, Achieved(), gpus=1, rollouts=n) for m in (model, more))
    assert other.step_s_per_kv_token > one.step_s_per_kv_token
    assert other.step_fixed_s == one.step_fixed_s
    assert (other.kv_capacity_tokens or 0) < (one.kv_capacity_tokens or 0)


@given(models)
def test_an_engine_holds_its_weights(model: Model) -> None:
    gpus = roofline.gpus_an_engine(model, H100, Achieved())
    assert model.weight_bytes <= gpus * 80e9 * 0.9 * 2 / 3
    assert gpus == 1 or model.weight_bytes > gpus / 2 * 80e9 * 0.9 * 2 / 3
    assert math.log2(gpus).is_integer()


def test_weights_that_do_not_fit_are_refused() -> None:
    big = Model(parameters_total=1e12, parameters_active=1e12, layers=100, hidden=10_000)
    with pytest.raises(ValueError, match="2000 GB of weights leave no room"):
        roofline.decoding(big, H100, Achieved(), gpus=8, rollouts=1)


@pytest.mark.parametrize("row", list(published.rows()), ids=lambda row: row.about)
def test_published_rows(row: published.Row) -> None:
    assert row.holds, f"{row.simulated} against {row.expected}, {row.wanted}"
