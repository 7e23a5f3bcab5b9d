"""V-trace against a public fixture, a recursion in plain floats, its limits, and values listed exactly."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.critic import CriticRecipe
from algorithms.gae import skip_observation_gae, value_targets
from algorithms.vtrace import corrected, vtrace, vtrace_advantages, vtrace_targets
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import policy_near, random_batch

NAN = float("nan")


def test_public_fixture():
    """Two trajectories of four steps, a discount a step; errors as rlax and TRFL print them."""
    behaviour = torch.tensor(
        [
            [[8.9, 0.7], [5.0, 1.0], [0.6, 0.1], [-0.9, -0.1]],
            [[0.3, -5.0], [1.0, -8.0], [0.3, 1.7], [4.7, 3.3]],
        ],
        dtype=T64,
    )
    target = torch.tensor(
        [
            [[0.4, 0.5], [9.2, 8.8], [0.7, 4.4], [7.9, 1.4]],
            [[1.0, 0.9], [1.0, -1.0], [-4.3, 8.7], [0.8, 0.3]],
        ],
        dtype=T64,
    )
    actions = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1]])[..., None]
    log_ratio = (target.log_softmax(-1) - behaviour.log_softmax(-1)).gather(-1, actions).squeeze(-1)
    capped = log_ratio.exp().clamp(max=1.0)
    values = rows([2.1, 1.1, -3.1, 0.0], [3.1, 0.1, -1.1, 7.4])
    got = corrected(
        rows([-1.3, -1.3, 2.3, 42.0], [1.3, 5.3, -3.3, -5.0]),
        values,
        torch.cat([values[:, 1:], rows([8.4], [-1.2])], dim=1),
        capped,
        capped,
        rows([0.0, 0.89, 0.85, 0.99], [0.88, 1.0, 0.83, 0.95]),
    )
    wanted = rows(
        [-1.6155143, -3.4973226, 1.8670533, 50.316002], [1.4662437, 3.6116405, -8.3327293e-5, -13.54]
    )
    torch.testing.assert_close(got.errors, wanted, rtol=1e-6, atol=1e-6)
    # At a cap of one, the error is the weighted advantage.
    torch.testing.assert_close(capped * got.advantages, wanted, rtol=1e-6, atol=1e-6)


def made(mask, rewards, values, log_ratios, bootstrap=None):
    """One rollout whose pi_old / mu is given in nats; NaN where nothing should look."""
    return batch(
        torch.tensor([mask]),
        rewards=torch.tensor([rewards], dtype=T64),
        values=torch.tensor([values], dtype=T64),
        old_log_probs=torch.tensor([log_ratios], dtype=T64),
        behaviour_log_probs=torch.zeros(1, len(mask), dtype=T64),
        truncated=torch.tensor([bootstrap is not None]),
        bootstrap_values=torch.tensor([NAN if bootstrap is None else bootstrap], dtype=T64),
    )


def test_by_hand_with_an_observation_between():
    # Ratios 1/2 and 2, V = 1 and 2, reward 4 at the end. Last: v - V = 1 (4 - 2) = 2, A = 2.
    # First: delta = 1/2 (2 - 1) = 1/2, v - V = 1/2 + 1/2 2 = 3/2; A = v_2 - V_1 = 4 - 1 = 3.
    b = made([True, False, True], [0.0, NAN, 4.0], [1.0, NAN, 2.0], [math.log(0.5), NAN, math.log(2.0)])
    torch.testing.assert_close(vtrace_targets(b), torch.tensor([[2.5, 0.0, 4.0]], dtype=T64))
    torch.testing.assert_close(vtrace_advantages(b), torch.tensor([[3.0, 0.0, 2.0]], dtype=T64))
    # A larger rho_bar lets the ratio 2 through: v_2 = 2 + 2 2 = 6, v_1 = 1 + 1/2 + 1/2 4 = 7/2.
    torch.testing.assert_close(vtrace_targets(b, rho_bar=3.0), torch.tensor([[3.5, 0.0, 6.0]], dtype=T64))
    # lambda = 0 carries nothing back.
    torch.testing.assert_close(vtrace_targets(b, lam=0.0), torch.tensor([[1.5, 0.0, 4.0]], dtype=T64))


finite = st.floats(-10, 10)


@given(st.data())
def test_equals_the_plain_recursion(data):
    width = data.draw(st.integers(1, 9))
    mask, rewards, values, nats = (
        data.draw(st.lists(kind, min_size=width, max_size=width))
        for kind in (st.booleans(), finite, finite, st.floats(-30, 30))
    )
    gamma, lam, c_bar = data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1)), data.draw(st.floats(0.1, 1))
    rho_bar = data.draw(st.floats(1, 20))
    bootstrap = data.draw(st.none() | finite)
    targets, advantages = [0.0] * width, [0.0] * width
    next_value = next_target = bootstrap or 0.0
    for t in reversed([t for t, chosen in enumerate(mask) if chosen]):
        ratio = math.exp(min(max(nats[t], -20), 20))
        delta = min(rho_bar, ratio) * (rewards[t] + gamma * next_value - values[t])
        advantages[t] = rewards[t] + gamma * next_target - values[t]
        targets[t] = values[t] + delta + gamma * lam * min(c_bar, ratio) * (next_target - next_value)
        next_value, next_target = values[t], targets[t]
    b = made(mask, rewards, values, nats, bootstrap)
    given_ = {"rho_bar": rho_bar, "c_bar": c_bar, "lam": lam, "gamma": gamma}
    torch.testing.assert_close(vtrace_targets(b, **given_), torch.tensor([targets], dtype=T64))
    torch.testing.assert_close(vtrace_advantages(b, **given_), torch.tensor([advantages], dtype=T64))


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_on_policy_the_targets_are_those_of_gae_and_at_lambda_one_so_are_the_advantages(lam: float):
    b = random_batch(3)
    b = dataclasses.replace(b, old_log_probs=b.behaviour_log_probs)
    torch.testing.assert_close(
        vtrace_targets(b, lam=lam, gamma=0.9), value_targets(b, gamma=0.9, lam_critic=lam)
    )
    if lam == 1.0:
        torch.testing.assert_close(vtrace_advantages(b, gamma=0.9), skip_observation_gae(b, gamma=0.9))


def test_without_truncation_the_target_has_the_mean_of_pi_olds_value():
    """One state, two actions, rewards 1 and 3: E_mu[v] is pi's mean reward, whatever the critic said."""
    pi, mu = torch.tensor([0.9, 0.1], dtype=T64), torch.tensor([0.3, 0.7], dtype=T64)
    b = batch(
        [[1], [1]],
        rewards=rows([1.0], [3.0]),
        values=rows([5.0], [5.0]),
        old_log_probs=pi.log()[:, None],
        behaviour_log_probs=mu.log()[:, None],
    )
    # E_mu[V + rho (r - V)] = V + E_pi[r] - V = .9 + .3.
    assert (mu @ vtrace_targets(b, rho_bar=math.inf)[:, 0]).item() == pytest.approx(1.2)
    # With the cap at 1 it is the value of the policy proportional to min(mu, pi), here (.3, .1).
    fixed_point = (0.3 * 1.0 + 0.1 * 3.0) / 0.4
    b = dataclasses.replace(b, values=torch.full((2, 1), fixed_point, dtype=T64))
    assert (mu @ vtrace_targets(b)[:, 0]).item() == pytest.approx(fixed_point)


def test_the_gradient_is_the_capped_ratio_times_the_advantage():
    b = random_batch(5)
    log_probs = policy_near(b, 0.3).requires_grad_()
    estimator = vtrace(rho_bar=1.5)
    advantages = estimator.advantage(b)
    total = estimator.total(b)
    estimator.loss(log_probs, b, advantages=advantages, total=total).backward()
    weight = (b.old_log_probs - b.behaviour_log_probs).exp().clamp(max=1.5)
    wanted = (-weight * vtrace_advantages(b, rho_bar=1.5) / total).where(b.action_mask, 0.0)
    torch.testing.assert_close(log_probs.grad, wanted)


def test_the_critic_learns_the_corrected_values():
    b = random_batch(6)
    recipe = vtrace(rho_bar=2.0, c_bar=0.5, lam=0.9, gamma=0.95, critic=CriticRecipe()).critic
    assert recipe is not None
    wanted = vtrace_targets(b, rho_bar=2.0, c_bar=0.5, lam=0.9, gamma=0.95)
    assert torch.equal(recipe.targets(b), wanted)


def test_ratios_of_any_size_stay_finite_over_a_long_rollout():
    n = 5000
    b = made([True] * n, [1.0] * n, [0.0] * n, [100.0, -100.0] * (n // 2))
    assert torch.isfinite(vtrace_targets(b, rho_bar=math.inf)).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"c_bar": 0.0}, r"c_bar must lie in \(0, 1\], got 0.0"),
        ({"c_bar": 2.0, "rho_bar": 3.0}, r"c_bar must lie in \(0, 1\], got 2.0"),
        ({"rho_bar": 0.5}, "rho_bar must be at least c_bar = 1.0, got 0.5"),
        ({"lam": 1.5}, "lam must lie"),
        ({"gamma": -0.5}, "gamma must lie"),
    ],
)
def test_an_option_out_of_range_is_refused_when_it_is_made(options: dict[str, float], said: str):
    with pytest.raises(ValueError, match=said):
        vtrace(**options)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="V-trace needs values"):
        vtrace_targets(batch([[1]]))
    with pytest.raises(ValueError, match="old_log_probs"):
        vtrace_targets(batch([[1]], values=rows([1.0])))
