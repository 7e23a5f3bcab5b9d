"""Single-stream policy optimization: what does each prompt usually earn, when the policy keeps moving?

The state is an explicit value: read the baselines of a batch, train on it, then extend the tracker.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from algorithms.advantage import Advantage, acting, running_mean
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.ratio import LogRatio, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip


class Tally(NamedTuple):
    """What a prompt has earned so far, as two numbers: for rewards 0 and 1, alpha and alpha + beta."""

    earned: float
    """Sum of rewards, old ones faded."""
    weight: float
    """How many rewards that sum is worth."""


HALF: Final = Tally(0.5, 1.0)
"""Half a success and half a failure."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTracker:
    r"""A mean of each prompt's rewards that forgets by how far the policy has moved since the last visit.

    .. math:: \hat v = \frac{\alpha}{\alpha + \beta}, \qquad \alpha \leftarrow \rho\alpha + r, \quad
        \beta \leftarrow \rho\beta + 1 - r, \qquad \rho = \mathrm{clamp}(2^{-D / D_{1/2}},\ \ell,\ h)

    Only alpha and alpha + beta are kept, so rewards need not lie in [0, 1]. Constants are those of the
    authors' code.

    Raises:
        ValueError: a constant outside its range.

    References:
        Xu and Ding, Single-stream Policy Optimization, 2025. https://arxiv.org/abs/2509.13232.
    """

    half_life_nats: float = 0.06
    """Drift that halves what is remembered."""
    slowest: float = 0.96
    """Most of the past that one visit keeps; 1 / (1 - 0.96) = 25 rewards are remembered at most."""
    fastest: float = 0.875
    """Least that it keeps: at least 8 rewards are remembered."""
    unseen: Tally = HALF
    """What a prompt without history has earned."""
    tallies: Mapping[int, Tally] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not 0 < self.half_life_nats < math.inf:
            raise ValueError(f"half_life_nats must be positive and finite, got {self.half_life_nats}")
        if not 0 <= self.fastest <= self.slowest <= 1:
            raise ValueError(
                f"needs 0 <= fastest <= slowest <= 1, got fastest {self.fastest} and slowest {self.slowest}"
            )
        if not self.unseen.weight > 0:
            raise ValueError(f"unseen needs a positive weight, got {self.unseen.weight}")

    def estimated(self, samples: Mapping[int, Sequence[float]]) -> ValueTracker:
        """This tracker with prompts that were tried before training.

        Their mean, smoothed by `unseen`, gets the weight 1 / (1 - fastest) of a prompt visited often.

        Args:
            samples: rewards of the starting policy, by prompt.
        """
        weight = 1.0 / max(1.0 - self.fastest, 1e-9)
        tried = {
            prompt: Tally(
                weight * (sum(rewards) + self.unseen.earned) / (len(rewards) + self.unseen.weight), weight
            )
            for prompt, rewards in samples.items()
        }
        return dataclasses.replace(self, tallies=MappingProxyType({**self.tallies, **tried}))

    def baselines(self, prompt_ids: Int[Tensor, " B"]) -> Float64[Tensor, " B"]:
        """What each rollout's prompt was expected to earn, for `Batch.baselines`."""
        tallies = [self.tallies.get(prompt, self.unseen) for prompt in prompt_ids.tolist()]
        return torch.tensor(
            [tally.earned / tally.weight for tally in tallies], dtype=torch.float64, device=prompt_ids.device
        )

    def kept(self, drift_nats: float) -> float:
        """Share of the past that a visit keeps after so much drift."""
        return min(max(math.exp2(-drift_nats / self.half_life_nats), self.fastest), self.slowest)

    def extended(self, batch: Batch, drift_nats: Float[Tensor, " B"]) -> ValueTracker:
        """This tracker after the batch.

        *Choice*: a prompt that comes several times in one batch forgets once, then counts each reward; the
        authors' code keeps the last of them only. A row without a single action token is no visit.

        Args:
            drift_nats: how far the policy moved since each rollout's prompt was last visited
                (`policy_drift`); zero at a first visit. Rows of one prompt are averaged.

        Raises:
            ValueError: a drift that is negative or not a number.
        """
        if not (drift_nats >= 0).all():
            raise ValueError(f"drift_nats must not be negative, got {drift_nats.min().item()}")
        acts = acting(batch).nonzero()[:, 0]
        batch, drift_nats = batch.rows(acts), drift_nats[acts]
        seen: dict[int, list[tuple[float, float]]] = {}
        rows = zip(batch.prompt_ids.tolist(), batch.returns.tolist(), drift_nats.tolist(), strict=True)
        for prompt, reward, drift in rows:
            seen.setdefault(prompt, []).append((reward, drift))
        tallies = dict(self.tallies)
        for prompt, visits in seen.items():
            before = tallies.get(prompt, self.unseen)
            kept = self.kept(math.fsum(drift for _, drift in visits) / len(visits))
            earned = math.fsum(reward for reward, _ in visits)
            tallies[prompt] = Tally(kept * before.earned + earned, kept * before.weight + len(visits))
        return dataclasses.replace(self, tallies=MappingProxyType(tallies))


def policy_drift(
    then: Float[Tensor, "B T"], now: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, " B"]:
    r"""How far the policy moved on a rollout, in nats a token.

    .. math:: D = \frac{1}{L} \sum_t |\log\pi_{then}(a_t \mid s_t) - \log\pi(a_t \mid s_t)|

    *Choice*: the paper says KL; this is what the authors' code takes for it, on the rollout of the
    prompt's *last* visit, which must therefore be kept. Rollouts without actions have not moved.

    Args:
        then: log-probs of the last visit's tokens when they were trained on.
        now: the same tokens under the present weights.
    """
    apart = (then - now).where(mask, 0.0).abs().detach()
    return apart.sum(-1) / mask.sum(-1).clamp(min=1)


@piece
def over_rollouts(advantage: Advantage, *, eps: float = 1e-8) -> Advantage:
    r"""The same advantage, one number a rollout, whitened over the rollouts of the whole batch.

    .. math:: \hat A_i = (A_i - \bar A) / (\sigma + \epsilon)

    Every rollout counts once, however long, unlike in `advantage.whitened`. Rollouts without actions do not
    count; fewer than two have no deviation, and come back unchanged.
    """

    def compose(batch: Batch) -> Float[Tensor, "B T"]:
        raw = advantage(batch)
        mask = batch.action_mask
        acts = acting(batch)
        if acts.sum() < 2:
            return raw
        first = mask.int().argmax(-1, keepdim=True)
        each = raw.double().gather(1, first).squeeze(1)
        deviation, mean = torch.std_mean(each[acts])
        white = ((each - mean) / (deviation + eps)).to(raw.dtype)
        return white[:, None].expand_as(mask).where(mask, 0.0)

    return compose


def spo(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    log_ratio: LogRatio = per_token_old,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""SPO: one rollout a prompt, the prompt's tracked value for a baseline, a scale of the whole batch.

    .. math:: A = \mathrm{whiten}(r - \hat v_{before})

    The learner fills `Batch.baselines` from a `ValueTracker` *before* it extends it with the batch: a
    baseline that holds the rollout's own reward would be biased. Its sampling of prompts by uncertainty is
    not here.

    Args:
        eps_low, eps_high: *choice*, half-widths of the clip, wider above as in DAPO.
        log_ratio: *choice*, `per_token_old`; `per_token` sees staleness.
        aggregate: *choice*, `token_mean`.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Xu and Ding, Single-stream Policy Optimization, 2025. https://arxiv.org/abs/2509.13232.
    """
    return Estimator(
        advantage=over_rollouts(running_mean),
        log_ratio=log_ratio,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )
