"""Variance Controlled Policy Optimization: REINFORCE on stale rollouts, with its variance held down."""

from __future__ import annotations

from functools import partial

from algorithms.advantage import Advantage, group_centred, population_std
from algorithms.aggregate import Aggregate, constant
from algorithms.correction import sequence_truncated
from algorithms.estimator import Estimator
from algorithms.ratio import per_token_old
from algorithms.trust import TrustRegion, score

_SUM = constant(1)
_POPULATION_STANDARDISED: Advantage = partial(group_centred, scale=population_std)


def vcpo(
    *,
    cap: float = 8.0,
    advantage: Advantage = _POPULATION_STANDARDISED,
    trust: TrustRegion = score,
    aggregate: Aggregate = _SUM,
) -> Estimator:
    r"""VCPO's loss: a rollout weighs its truncated importance ratio, whatever its length.

    .. math:: \min\Bigl(\prod_t \frac{\pi_{old}(a_t \mid s_t)}{\mu(a_t \mid s_t)},\ C\Bigr)\,
        A \sum_t \log\pi(a_t \mid s_t)

    What gives the method its name lies beside the loss, in `stabilise.vcpo`: a learning rate scaled by the
    effective sample size of the untruncated weights, and `least_variance_advantages`, which need the size of
    each rollout's gradient. Without that, the group's mean is the baseline.

    Args:
        cap: C, 8.
        advantage: *choice*, the reward minus the group's mean, over its population standard deviation.
        trust: *choice*, `score`, for one update a batch; with `ppo_clip` it is a GRPO of several.
        aggregate: *choice*, the sum over tokens, averaged over rollouts: the baseline is optimal for it.

    Raises:
        ValueError: `cap` is not positive.

    References:
        Huang et al., VCPO, 2026. https://arxiv.org/abs/2602.17616.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=per_token_old,
        trust=trust,
        aggregate=aggregate,
        correction=sequence_truncated(cap),
    )
