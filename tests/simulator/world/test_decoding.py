"""Decoding between two events: both ways, in pieces, and step by step."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simulator.world.decoding import (
    LoadDependent,
    decode_s,
    decoded_tokens,
    tokens_until_full,
    whole_tokens,
)

steps = st.floats(1e-6, 10.0)
growths = st.one_of(st.just(0.0), st.floats(1e-12, 1.0))
tokens = st.one_of(st.just(0.0), st.floats(1e-3, 1e5))


@given(tokens, steps, growths)
def test_forward_then_inverse_is_the_identity(u, step_s, growth_s):
    assert decoded_tokens(decode_s(u, step_s, growth_s), step_s, growth_s) == pytest.approx(u, rel=1e-9)


@given(tokens, tokens, steps, growths)
def test_a_stretch_takes_as_long_as_its_two_parts(u, v, step_s, growth_s):
    # the second part begins with a step that has grown by u times the growth
    parts = decode_s(u, step_s, growth_s) + decode_s(v, step_s + growth_s * u, growth_s)
    assert decode_s(u + v, step_s, growth_s) == pytest.approx(parts, rel=1e-9)


@given(st.integers(1, 60), st.integers(0, 5000), st.integers(1, 40))
def test_it_is_the_sum_of_the_steps(n, kv, u):
    # a step that begins with K tokens and ends with K + n costs what its middle costs
    a, b, c = 0.01, 1e-4, 1e-6
    expected = sum(a + b * n + c * (kv + n * i + n / 2) for i in range(u))
    assert decode_s(u, a + b * n + c * kv, c * n) == pytest.approx(expected, rel=1e-12)


def test_a_tiny_growth_does_not_cancel():
    assert decoded_tokens(3.0, 0.5, 1e-300) == 6.0
    assert decoded_tokens(1e-9, 1.0, 1e9) == pytest.approx(1e-9 / ((1 + math.sqrt(3.0)) / 2), rel=1e-12)


def test_no_time_makes_no_token():
    assert decoded_tokens(0.0, 1.0, 1.0) == decoded_tokens(-1e-18, 1.0, 1.0) == 0.0


def test_tokens_until_full_are_shared_and_never_negative():
    assert tokens_until_full(100.0, 70.0, 4) == 7.5
    assert tokens_until_full(100.0, 100.0 + 1e-12, 4) == 0.0


def test_only_finished_tokens_count():
    assert [whole_tokens(x) for x in (0.0, 0.999, 1.0 - 1e-9, 1.0, 2.5)] == [0, 0, 1, 1, 2]


def test_a_step_takes_time():
    with pytest.raises(ValidationError, match="a step must take time"):
        LoadDependent(step_fixed_s=0.0, step_s_per_rollout=0.0)
