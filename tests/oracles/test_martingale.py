"""Exact bias in rational arithmetic on random decision processes. https://pypi.org/project/martingale/.

Our weight on a token, d surrogate / d log pi, becomes an estimator of theirs; only `exp` and `log` round.
"""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
import torch
from martingale.exact import check_unbiased, defendants
from martingale.policy import log_prob_gradient

from algorithms.aggregate import constant, sequence_mean
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_sequence_product, per_token
from algorithms.trust import TrustRegion, double_sided_mask, importance_weighted, ppo_clip, score
from tests.algorithms.make import T64, batch

CONFIGURATIONS: dict[str, Any] = {"n_configs": 2, "lags": (1, 4), "sizes": ((3, 2, 2), (2, 3, 2))}


def adapted(trust: TrustRegion, log_ratio: LogRatio) -> Any:
    aggregate = sequence_mean if log_ratio is per_sequence_product else constant(1)
    ours = Estimator(advantage=lambda b: b.rewards, log_ratio=log_ratio, trust=trust, aggregate=aggregate)
    one = torch.tensor(1)

    def estimator(trajectory: Any, target: Any, behavior: Any) -> dict[tuple[int, int], Fraction]:
        steps = [(s, a) for s, a, _, _ in trajectory["steps"]]
        pi, mu = (
            torch.tensor([[float(p.prob(s, a)) for s, a in steps]], dtype=T64).log()
            for p in (target, behavior)
        )
        pi.requires_grad_()
        single = batch(torch.ones(1, len(steps), dtype=torch.bool), behaviour_log_probs=mu)
        advantages = torch.full_like(mu, float(trajectory["return"]))
        loss = ours.loss(pi, single, advantages=advantages, total=one)
        (weights,) = torch.autograd.grad(-loss, pi)
        out: dict[tuple[int, int], Fraction] = {}
        for (s, a), weight in zip(steps, weights[0].tolist(), strict=True):
            for other, g in log_prob_gradient(target, s, a).items():
                out[s, other] = out.get((s, other), Fraction(0)) + Fraction(weight) * g
        return out

    return estimator


def test_the_sequence_product_is_unbiased_at_any_lag():
    report = check_unbiased(adapted(importance_weighted, per_sequence_product), name="ours", **CONFIGURATIONS)
    assert max(float(c.rel_sq_bias) for c in report.certificates) < 1e-24


@pytest.mark.parametrize(
    ("trust", "peer"),
    [
        (importance_weighted, defendants.token_is),
        (score, defendants.unweighted),
        (ppo_clip(0.2, 0.2), defendants.token_ppo_clip(Fraction(1, 5))),
        # Their band is closed; no ratio of these processes falls on an edge.
        (double_sided_mask(0.2, 0.25), defendants.token_masked_is(Fraction(4, 5), Fraction(5, 4))),
    ],
    ids=["token ratio", "no correction", "ppo clip", "dis"],
)
def test_the_bias_of_a_token_region_is_theirs(trust: TrustRegion, peer: Any):
    ours = check_unbiased(adapted(trust, per_token), name="ours", **CONFIGURATIONS)
    exact = check_unbiased(peer, **CONFIGURATIONS)
    for a, b in zip(ours.certificates, exact.certificates, strict=True):
        for key, bias in b.bias.items():
            assert float(a.bias[key]) == pytest.approx(float(bias), abs=1e-12)
    assert not exact.all_unbiased


LAGS = (0, 1, 4)
"""Updates between the policy that sampled and the one that learns."""


def verdicts(report: Any, unbiased: Iterable[bool]) -> dict[int, int]:
    """Configurations without bias, by lag."""
    count = Counter(dict.fromkeys(LAGS, 0))
    for certificate, holds in zip(report.certificates, unbiased, strict=True):
        count[certificate.lag] += holds
    return dict(count)


@pytest.mark.parametrize(
    ("trust", "log_ratio", "peer", "at_any_lag"),
    [
        (importance_weighted, per_sequence_product, defendants.seq_is, True),
        (importance_weighted, per_token, defendants.token_is, False),
        (ppo_clip(0.2, 0.2), per_token, defendants.token_ppo_clip(Fraction(1, 5)), False),
        (
            double_sided_mask(0.3, 5.0),
            per_token,
            defendants.token_masked_is(Fraction(7, 10), Fraction(6)),
            False,
        ),
        (score, per_token, defendants.unweighted, False),
    ],
    ids=["sequence product", "token ratio", "ppo clip", "dis", "no correction"],
)
def test_unbiased_configurations_by_lag(trust: TrustRegion, log_ratio: LogRatio, peer: Any, at_any_lag: bool):
    """Of three processes: all without lag; with any, all for the rollout's exact ratio and none for others.

    Theirs is an identity of fractions, ours rounds: 1e-24 of the squared gradient is no bias.
    """
    drawn: dict[str, Any] = {"n_configs": 3, "lags": LAGS, "sizes": ((2, 2, 2), (2, 3, 2), (2, 2, 3))}
    wanted = {lag: 3 if at_any_lag or lag == 0 else 0 for lag in LAGS}
    exact = check_unbiased(peer, **drawn)
    assert verdicts(exact, (c.is_unbiased for c in exact.certificates)) == wanted
    ours = check_unbiased(adapted(trust, log_ratio), name="ours", **drawn)
    assert verdicts(ours, (c.rel_sq_bias < 1e-24 for c in ours.certificates)) == wanted
    for a, b in zip(ours.certificates, exact.certificates, strict=True):
        assert float(a.rel_sq_bias) == pytest.approx(float(b.rel_sq_bias), rel=1e-9, abs=1e-24)
