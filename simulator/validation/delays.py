"""The learning rate at which late data makes a policy unstable: estimators against the delay law."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.validation.row import Row, within

LAGS_UPDATES = (0, 1, 4, 16)
SOURCE = "delay-difference equation, Levin and May 1976"


def staleness_rule() -> Iterator[Row]:
    """A bandit with an interior optimum: the plain score, late by S, and what a ratio can do about it.

    The ratio removes the delay where the entropy is the learner's own. Where it is a reward, the ratio
    weights a number that stays old, and nothing is gained.
    """
    # Here, because no other check needs torch.
    import torch

    from algorithms.advantage import group_centred
    from algorithms.aggregate import constant
    from algorithms.estimator import Estimator
    from algorithms.ratio import per_token
    from algorithms.stabilise.staleness_rule import critical_rate
    from algorithms.trust import importance_weighted, score
    from simulator.exact.delay_law import SoftBandit, measured_critical_rate

    rewards = torch.tensor([1.0, 0.6, 0.3, 0.0], dtype=torch.float64)
    bandit = SoftBandit(rewards=rewards, entropy_weight=0.5)
    plain, weighted = (
        Estimator(advantage=group_centred, log_ratio=per_token, trust=trust, aggregate=constant(1))
        for trust in (score, importance_weighted)
    )
    for about, ascent, delayed in (
        ("no ratio", bandit.entropy_as_sampled(plain), True),
        ("ratio, entropy a reward", bandit.entropy_as_sampled(weighted), True),
        ("ratio, entropy the learner's", bandit.entropy_of_the_learner(weighted), False),
    ):
        for lag in LAGS_UPDATES:
            yield within(
                0.01,
                about=f"largest stable learning rate, bandit, lag {lag}, {about}",
                source=SOURCE,
                expected=critical_rate(lag if delayed else 0, curvature=bandit.curvature()),
                simulated=measured_critical_rate(ascent, bandit.optimum(), lag_updates=lag),
                n=1,
            )
