"""REINFORCE with a leave-one-out baseline."""

from __future__ import annotations

from algorithms.advantage import leave_one_out
from algorithms.aggregate import Aggregate, constant
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_token
from algorithms.trust import TrustRegion, score

_SUM = constant(1)


def rloo(
    *, trust: TrustRegion = score, log_ratio: LogRatio = per_token, aggregate: Aggregate = _SUM
) -> Estimator:
    r"""RLOO: the mean of the other rollouts for a baseline, no clip, a whole response as one action.

    .. math:: \Bigl(r_i - \frac{1}{K-1}\sum_{j\ne i} r_j\Bigr) \sum_t \log\pi(a_t \mid s_t)

    As published it corrects nothing off-policy, stale rollouts count as fresh.

    Args:
        trust: *choice*, `score`; `importance_weighted` corrects, TRL and OpenRLHF put `ppo_clip` here.
        log_ratio: *choice*, read by other trusts: `per_token`, or a ratio of the rollout as in TRL.
        aggregate: *choice*, the sum over tokens, averaged over rollouts; libraries often average over tokens.

    References:
        Ahmadian et al., RLOO, 2024. https://arxiv.org/abs/2402.14740.
    """
    return Estimator(advantage=leave_one_out, log_ratio=log_ratio, trust=trust, aggregate=aggregate)
