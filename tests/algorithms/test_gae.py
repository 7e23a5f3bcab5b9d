"""Every number of SAO's definition that concerns advantages, and a slow twin over random masks."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.gae import length_adaptive, skip_observation_gae, value_targets
from algorithms.rollout import Batch
from tests.algorithms.make import T64, batch, rows, terminal

NAN = float("nan")


def one(mask: str, values: list[float], reward: float | list[float], **fields: Any) -> Batch:
    """One rollout; '1' an action, '0' an observation. Values stay where given, NaN rewards elsewhere."""
    action = torch.tensor([[c == "1" for c in mask]])
    rewards = rows(reward) if isinstance(reward, list) else terminal(action, [reward])
    return batch(action, rewards=rewards, values=torch.tensor([values], dtype=T64), **fields)


def close(got: torch.Tensor, *wanted: list[float], atol: float = 1e-9) -> None:
    torch.testing.assert_close(got, torch.tensor(wanted, dtype=got.dtype), atol=atol, rtol=0)


def test_sao_numbers_lambda_one():
    b = one("111", [1.0, 2.0, 3.0], 5.0)
    close(skip_observation_gae(b, lam=1.0), [4.0, 3.0, 2.0])
    close(value_targets(b), [5.0, 5.0, 5.0])
    close(skip_observation_gae(one("1001", [10.0, 99.0, 99.0, 4.0], 1.0), lam=1.0), [-9.0, 0.0, 0.0, -3.0])


def test_sao_numbers_gamma_and_lambda_one_half():
    b = one("111", [1.0, 1.0, 1.0], 8.0)
    close(skip_observation_gae(b, gamma=0.5, lam=0.5), [-0.1875, 1.25, 7.0])
    close(value_targets(b, gamma=0.5, lam_critic=0.5), [0.8125, 2.25, 8.0])


def test_sao_numbers_observations_between_actions():
    b = one("10101", [0.5, -0.5, 2.0, -1.0, 0.0], -2.0)
    close(skip_observation_gae(b, gamma=0.99, lam=0.95), [-2.1700805, 0.0, -3.881, 0.0, -2.0])


def test_sao_numbers_index_by_position_not_by_count():
    b = one("10011", [0.5, 9.0, -9.0, 0.25, 0.75], 1.0)
    close(skip_observation_gae(b, lam=0.95), [0.450625, 0.0, 0.0, 0.7375, 0.25])


def test_sao_numbers_adaptive_lambda():
    b = one("111", [0.2, 0.5, 0.6], 1.0)
    close(skip_observation_gae(b, lam=length_adaptive(1.5)), [0.619753, 0.411111, 0.4], atol=5e-7)


def test_sao_numbers_an_observations_value_is_never_read():
    close(skip_observation_gae(one("101", [0.2, 42.0, 0.4], 1.0), lam=0.95), [0.77, 0.0, 0.6])


def test_sao_numbers_truncation_bootstraps():
    cut = torch.tensor([True])
    b = one("1", [0.5], 0.0, truncated=cut, bootstrap_values=torch.tensor([2.0], dtype=T64))
    close(skip_observation_gae(b, lam=length_adaptive(1.5)), [1.5])
    b = one("11", [0.1, 0.2], [0.0, 0.0], truncated=cut, bootstrap_values=torch.tensor([0.7], dtype=T64))
    close(skip_observation_gae(b, lam=1.0), [0.6, 0.5])
    close(skip_observation_gae(b, lam=1.0, bootstrap_truncated=False), [-0.1, -0.2])


def test_bootstrap_follows_the_last_action_not_the_last_token():
    b = one(
        "1010",
        [0.1, NAN, 0.2, NAN],
        0.0,
        truncated=torch.tensor([True]),
        bootstrap_values=torch.tensor([0.7], dtype=T64),
    )
    close(skip_observation_gae(b, lam=1.0), [0.6, 0.0, 0.5, 0.0])


def test_a_terminated_rollout_ignores_its_bootstrap():
    b = one("11", [0.1, 0.2], 1.0, bootstrap_values=torch.tensor([NAN], dtype=T64))
    close(skip_observation_gae(b, lam=1.0), [0.9, 0.8])


@pytest.mark.parametrize(
    ("lam", "wanted"), [(0.8, [0.21712, 0.246, 0.0, 0.0, 0.3]), (0.95, [0.46575, 0.385, 0.0, 0.0, 0.3])]
)
def test_a35_tool_tokens_neither_decay_nor_leak(lam: float, wanted: list[float]):
    b = one("11001", [0.5, 0.6, 9.0, 9.0, 0.7], 1.0)
    close(skip_observation_gae(b, gamma=0.9 if lam == 0.8 else 1.0, lam=lam), wanted, atol=5e-6)


def test_a37_the_score_sits_on_the_end_of_sequence_token():
    b = one("11100", [0.0] * 5, 1.0)
    close(skip_observation_gae(b, lam=0.95), [0.9025, 0.95, 1.0, 0.0, 0.0])


def test_a42_lambda_of_short_and_long_rollouts():
    lengths = torch.tensor([1, 2, 20, 200])
    lam = length_adaptive(1.5)(lengths)
    assert lam.dtype == torch.float64
    close(lam[None], [1 / 3, 2 / 3, 0.9666666667, 0.9966666667])
    close(length_adaptive(1.5)(torch.tensor([3, 4]))[None], [0.7777777778, 0.8333333333])
    close(length_adaptive(0.05)(torch.tensor([20, 200]))[None], [0.0, 0.9])


@pytest.mark.parametrize(("tokens", "lam"), [(1, "-19"), (2, "-9")])
def test_a42_a_negative_lambda_is_refused(tokens: int, lam: str):
    with pytest.raises(
        ValueError, match=rf"alpha = 0.05 makes lambda = {lam} for a rollout of {tokens} action"
    ):
        length_adaptive(0.05)(torch.tensor([tokens, 200]))


def test_a42_observations_do_not_lengthen_a_rollout():
    with_tool = one("101", [0.2, 42.0, 0.4], 1.0)
    without = one("11", [0.2, 0.4], 1.0)
    rule = length_adaptive(1.5)
    torch.testing.assert_close(
        skip_observation_gae(with_tool, lam=rule)[0, [0, 2]], skip_observation_gae(without, lam=rule)[0]
    )


def test_lambda_to_the_length_tends_to_a_constant():
    length = torch.tensor([100_000])
    assert (length_adaptive(1.5)(length) ** length).item() == pytest.approx(math.exp(-1 / 1.5), abs=1e-5)


def test_a56_each_row_has_a_lambda_of_its_own():
    action = rows([1, 1], [1] * 4, dtype=torch.long).bool()
    b = batch(action, rewards=terminal(action, [1.0, 1.0]), values=torch.zeros(2, 4, dtype=T64))
    got = skip_observation_gae(b, lam=length_adaptive(1.5))
    close(got, [2 / 3, 1.0, 0.0, 0.0], [0.5787037037, 0.6944444444, 0.8333333333, 1.0])
    for i in (0, 1):
        torch.testing.assert_close(
            skip_observation_gae(b.rows(slice(i, i + 1)), lam=length_adaptive(1.5)), got[i : i + 1]
        )


def test_a56_as_many_rows_as_tokens():
    # B = T is where a [B] that should be [B, 1] broadcasts without an error.
    action = torch.tensor([[1, 0], [1, 1]]).bool()
    b = batch(action, rewards=terminal(action, [1.0, 1.0]), values=torch.zeros(2, 2, dtype=T64))
    close(skip_observation_gae(b, lam=length_adaptive(1.5)), [1.0, 0.0], [2 / 3, 1.0])


@pytest.mark.parametrize(
    ("gamma", "lam", "targets"),
    [(1.0, 1.0, [6.0, 5.0, 3.0]), (0.5, 1.0, [2.75, 3.5, 3.0]), (1.0, 0.5, [3.625, 4.25, 3.0])],
)
def test_fixture_of_a_public_suite(gamma: float, lam: float, targets: list[float]):
    b = one("111", [0.5, 1.0, 1.5], [1.0, 2.0, 3.0])
    close(value_targets(b, gamma=gamma, lam_critic=lam), targets)


def test_what_is_missing_or_out_of_range_is_named():
    b = one("1", [0.5], 1.0)
    with pytest.raises(ValueError, match=r"gamma must lie in \[0, 1\], got 1.1"):
        skip_observation_gae(b, gamma=1.1)
    with pytest.raises(ValueError, match=r"lam must lie in \[0, 1\], got -0.1"):
        skip_observation_gae(b, lam=-0.1)
    with pytest.raises(ValueError, match="alpha must be positive"):
        length_adaptive(0.0)
    with pytest.raises(ValueError, match="bootstrap_values is None for 1 truncated"):
        skip_observation_gae(one("1", [0.5], 1.0, truncated=torch.tensor([True])))
    with pytest.raises(ValueError, match="needs values"):
        skip_observation_gae(batch([[1]]))


def slow_twin(rewards, values, mask, bootstrap, gamma, lam):
    """The recursion in plain floats over the list of action positions."""
    positions = [t for t, chosen in enumerate(mask) if chosen]
    out = [0.0] * len(mask)
    next_value, next_advantage = bootstrap, 0.0
    for t in reversed(positions):
        out[t] = rewards[t] + gamma * next_value - values[t] + gamma * lam * next_advantage
        next_value, next_advantage = values[t], out[t]
    return out


finite = st.floats(-10, 10)


@given(st.data())
def test_equals_the_plain_recursion(data):
    width = data.draw(st.integers(1, 9))
    mask = data.draw(st.lists(st.booleans(), min_size=width, max_size=width))
    rewards = data.draw(st.lists(finite, min_size=width, max_size=width))
    values = data.draw(st.lists(finite, min_size=width, max_size=width))
    gamma, lam = data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))
    bootstrap = data.draw(st.none() | finite)
    b = batch(
        torch.tensor([mask]),
        rewards=torch.tensor([rewards], dtype=T64),
        values=torch.tensor([values], dtype=T64),
        truncated=torch.tensor([bootstrap is not None]),
        bootstrap_values=torch.tensor([NAN if bootstrap is None else bootstrap], dtype=T64),
    )
    wanted = slow_twin(rewards, values, mask, bootstrap or 0.0, gamma, lam)
    close(skip_observation_gae(b, gamma=gamma, lam=lam), wanted)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_skipping_changes_nothing_at_gamma_and_lambda_one(mask, random):
    """Observations telescope away, if they are stepped through with the values they have."""
    mask = [*mask, True]
    values = [random.uniform(-2, 2) for _ in mask]
    skipped = skip_observation_gae(one("".join("01"[m] for m in mask), values, 3.0), lam=1.0)
    stepped = skip_observation_gae(one("1" * len(mask), values, 3.0), lam=1.0)
    chosen = torch.tensor([mask])
    torch.testing.assert_close(skipped[chosen], stepped[chosen])
