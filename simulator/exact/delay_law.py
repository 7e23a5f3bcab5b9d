r"""At which learning rate does a policy that learns from late data stop settling? Measured, without noise.

A softmax bandit whose objective has an interior optimum,

.. math:: J(\theta) = \sum_a \pi_a r_a + \tau H(\pi), \qquad \pi^* = \mathrm{softmax}(r / \tau)

and ascent on what an estimator expects of rollouts that are S updates old. The estimator's own gradient is
differentiated at the optimum, by learner and by behaviour, and the roots of that linear system with delay say
whether it settles. What they should say is `algorithms.stabilise.staleness_rule.critical_rate`.

Where the entropy is counted decides what a ratio can do. As a reward it is a number that the behaviour policy
left behind: a ratio corrects who sampled, not how old the number is, and the delay stays. As a term of the
policy being trained it is fresh; with the ratio the gradient is then :math:`\nabla J` at any lag.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import torch
from jaxtyping import Float64
from torch import Tensor

from algorithms.entropy import entropy_bonus
from algorithms.estimator import Estimator
from simulator.exact.gradient import expected_gradient
from simulator.exact.world import World

Ascent: TypeAlias = Callable[[World, World], Float64[Tensor, "1 A"]]
"""(learner, behaviour) -> expected direction of the learner's logits, to be multiplied by the rate."""

STEP: Final = 1e-5
"""Of the central differences, in logits: their error is its square."""
SMALLEST_RATE: Final = 1e-3
"""At which a policy that settles at all does so, in worlds whose rewards are of size one."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SoftBandit:
    """Actions, what each is worth, and what entropy is worth.

    Raises:
        ValueError: fewer than two actions, or a price of entropy that is not positive.
    """

    rewards: Float64[Tensor, " A"]
    entropy_weight: float
    """tau, in units of reward a nat."""

    def __post_init__(self) -> None:
        if self.rewards.ndim != 1 or len(self.rewards) < 2:
            raise ValueError(f"needs two actions or more, got rewards of shape {tuple(self.rewards.shape)}")
        if not self.entropy_weight > 0:
            raise ValueError(f"entropy_weight must be positive, got {self.entropy_weight}")

    def optimum(self) -> World:
        """The best policy: a World of one token."""
        best = (self.rewards / self.entropy_weight).log_softmax(0)
        return World(logits=best[None], rewards=self.rewards, length_tokens=1)

    def curvature(self) -> float:
        r"""Largest eigenvalue of minus the Hessian of J at the optimum, in units of reward.

        .. math:: \lambda = \tau\, \lambda_{max}\bigl(\mathrm{diag}(\pi^*) - \pi^* \pi^{*\top}\bigr)
        """
        pi = self.optimum().probabilities()
        return self.entropy_weight * float(torch.linalg.eigvalsh(pi.diag() - pi.outer(pi))[-1])

    def entropy_as_sampled(self, estimator: Estimator) -> Ascent:
        r"""Entropy in the reward, as the behaviour policy left it.

        .. math:: A_\varphi = r - \tau \log\varphi - E_\varphi[r - \tau \log\varphi]
        """

        def ascent(learner: World, behaviour: World) -> Float64[Tensor, "1 A"]:
            worth = self.rewards - self.entropy_weight * behaviour.log_probs()[:, 0]
            return _expected(estimator, learner, behaviour, worth)

        return ascent

    def entropy_of_the_learner(self, estimator: Estimator) -> Ascent:
        """Entropy as a term of the loss, by the policy that is being trained."""
        fresh = dataclasses.replace(
            estimator, regularisers=(*estimator.regularisers, entropy_bonus(self.entropy_weight))
        )

        def ascent(learner: World, behaviour: World) -> Float64[Tensor, "1 A"]:
            return _expected(fresh, learner, behaviour, self.rewards)

        return ascent


def _expected(
    estimator: Estimator, learner: World, behaviour: World, worth: Float64[Tensor, " A"]
) -> Float64[Tensor, "1 A"]:
    advantages = (worth - behaviour.probabilities() @ worth)[:, None]
    actions = len(worth)
    return expected_gradient(
        estimator, learner, behaviour, advantages=advantages, rollouts_a_batch=actions
    ).mean


def late_ascent(ascent: Ascent, start: World, *, learning_rate: float, lag_updates: int) -> Iterator[World]:
    r"""The policies :math:`\theta_{n+1} = \theta_n + \eta\, g(\theta_n, \theta_{n-S})`, n = 1, 2, ...

    Before the first update every policy was `start`.
    """
    past = [start] * (lag_updates + 1)
    while True:
        step = learning_rate * ascent(past[-1], past[0])
        past = [*past[1:], past[-1].at(past[-1].logits + step)]
        yield past[-1]


def largest_root(ascent: Ascent, at: World, *, lag_updates: int) -> Callable[[float], float]:
    r"""Learning rate -> modulus of the slowest mode about the fixed point `at`; it settles iff below one.

    With :math:`G_\theta, G_\varphi` the derivatives of the ascent by learner and behaviour, the modes are the
    eigenvalues of the companion matrix of

    .. math:: x_{n+1} = (1 + \eta G_\theta)\, x_n + \eta G_\varphi\, x_{n-S}

    A softmax does not see a shift of all its logits: that direction never moves, and is left out.
    """
    actions = at.logits.shape[1]
    moving = _moving(actions)
    fresh = moving.T @ _slope(lambda logits: ascent(at.at(logits), at), at) @ moving
    late = moving.T @ _slope(lambda logits: ascent(at, at.at(logits)), at) @ moving
    width = actions - 1

    def modulus(learning_rate: float) -> float:
        companion = torch.diag(torch.ones(width * lag_updates, dtype=torch.float64), -width)
        companion[:width, :width] += torch.eye(width, dtype=torch.float64) + learning_rate * fresh
        companion[:width, -width:] += learning_rate * late
        # Without a delay the shifted diagonal is empty, and the matrix the two terms above.
        return float(torch.linalg.eigvals(companion).abs().max())

    return modulus


def measured_critical_rate(ascent: Ascent, at: World, *, lag_updates: int) -> float:
    """The learning rate at which the ascent stops settling at `at`, by bisection.

    Raises:
        ValueError: it does not settle there at any rate worth the name.
    """
    modulus = largest_root(ascent, at, lag_updates=lag_updates)
    high = SMALLEST_RATE
    while modulus(high) < 1:
        high *= 2
    if high == SMALLEST_RATE:
        raise ValueError(f"a policy near this point leaves it, or never moves, at the learning rate {high}")
    low = high / 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if modulus(middle) < 1 else (low, middle)
    return (low + high) / 2


def _slope(
    function: Callable[[Float64[Tensor, "1 A"]], Float64[Tensor, "1 A"]], at: World
) -> Float64[Tensor, "A A"]:
    """Jacobian, by central differences: column j holds the derivative by logit j."""
    columns = [
        (function(at.logits + step) - function(at.logits - step))[0] / (2 * STEP)
        for step in STEP * torch.eye(at.logits.shape[1], dtype=at.logits.dtype)[:, None]
    ]
    return torch.stack(columns, dim=1)


def _moving(actions: int) -> Float64[Tensor, "A A-1"]:
    """An orthonormal basis of the logits that sum to zero."""
    constant = torch.ones(actions, 1, dtype=torch.float64)
    rest = torch.eye(actions, dtype=torch.float64)[:, 1:]
    basis: Tensor = torch.linalg.qr(torch.cat([constant, rest], dim=1))[0]
    return basis[:, 1:]
