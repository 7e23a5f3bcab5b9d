"""Group Sequence Policy Optimization: the clip acts on whole rollouts."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.ratio import LogRatio, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip


@piece
def averaged(of: LogRatio) -> LogRatio:
    r"""Mean of a log-ratio over a rollout's action tokens, repeated along `T`; gradient flows through all.

    .. math:: G = \frac{1}{L} \sum_t \log \rho_t

    `averaged(per_token)` is `ratio.per_sequence`.
    """

    def log_ratio(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
        terms = of(log_probs, batch)
        mean = terms.sum(-1, keepdim=True) / batch.action_tokens[:, None].clamp(min=1)
        return mean.expand_as(terms).where(batch.action_mask, 0.0)

    return log_ratio


@piece
def averaged_locally(of: LogRatio) -> LogRatio:
    r"""The value of `averaged`, the gradient of each token's own log-prob: GSPO's token form.

    .. math:: \log s_t = \mathrm{sg}[G] + \log\pi_t - \mathrm{sg}[\log\pi_t]

    Where the advantage is the same along a rollout, a mean over the rollout's tokens gives the gradient of
    `averaged`; a sum over tokens gives it times the length.
    """
    whole = averaged(of)

    def log_ratio(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
        own = of(log_probs, batch)
        return whole(log_probs, batch).detach() + (own - own.detach())

    return log_ratio


def gspo(
    *,
    eps_low: float = 3e-4,
    eps_high: float = 4e-4,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = sequence_mean,
) -> Estimator:
    """GSPO: a group for a baseline, PPO's clip on the mean log-ratio of each rollout.

    Args:
        eps_low, eps_high: half-widths around a geometric mean, hundreds of times tighter than a token's.
            (verl also stops that mean's log at 10; here `bounded_exp` stops it at 20.)
        log_ratio: *choice*, the token ratio to average: `per_token_old` as in the paper; `per_token` is
            against the engine that sampled, and sees staleness.
        advantage: *choice*, GRPO's.
        aggregate: `sequence_mean`; a sum over tokens would scale the gradient by the length.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Zheng et al., GSPO, 2025, equation 5. https://arxiv.org/abs/2507.18071.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=averaged(log_ratio),
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )


def gspo_token(
    *,
    eps_low: float = 3e-4,
    eps_high: float = 4e-4,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = sequence_mean,
) -> Estimator:
    """GSPO's token form (verl's): the rollout's ratio decides value and clip, each token moves itself.

    The same gradient as `gspo` while the advantage is the same along a rollout; other advantages need it.

    Args:
        eps_low, eps_high, log_ratio, advantage, aggregate: as for `gspo`.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Zheng et al., GSPO, 2025, equations 13 and 14. https://arxiv.org/abs/2507.18071.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=averaged_locally(log_ratio),
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )
