"""Every composition that the laws hold for, in one place, and random batches to try them on."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from algorithms.advantage import group_centred, reward_minus_value, whitened
from algorithms.aggregate import Aggregate, constant, sequence_mean, token_mean
from algorithms.bapo import bapo
from algorithms.catalogue import by_name
from algorithms.correction import both, token_ratio, token_truncated
from algorithms.critic import CriticRecipe
from algorithms.decoupled import decoupled_ppo
from algorithms.estimator import Estimator
from algorithms.gae import skip_observation_gae
from algorithms.grpo import grpo, grpo_behaviour_clip
from algorithms.icepop import icepop
from algorithms.m2po import m2po, m2po_areal
from algorithms.ratio import per_sequence_product, per_token
from algorithms.rejection import veto
from algorithms.rollout import Batch
from algorithms.sao import sao
from algorithms.tis import over_rollouts, over_tokens, sequence_tis, token_tis
from algorithms.trust import (
    double_sided_mask_undetached,
    dual_clip,
    importance_weighted,
    inside,
    ppo_clip,
)


@dataclass(frozen=True, kw_only=True)
class Composition:
    """An estimator, and the aggregate under which its on-policy gradient is REINFORCE's."""

    estimator: Estimator
    reinforce: Aggregate | None
    """None where the law is known not to hold, which another test states."""
    tokens: int = 6
    """Longest rollout that it is tried on."""
    sure: tuple[int, ...] = (0,)
    """Positions at which every rollout acts, for what refuses short ones."""

    def draw(self, seed: int) -> Batch:
        return random_batch(seed, tokens=self.tokens, sure=self.sure)


def _own(estimator: Estimator) -> Composition:
    return Composition(estimator=estimator, reinforce=estimator.aggregate)


def _of(advantage, log_ratio, trust, aggregate) -> Estimator:
    return Estimator(advantage=advantage, log_ratio=log_ratio, trust=trust, aggregate=aggregate)


# By name in the catalogue: compositions whose on-policy gradient is REINFORCE's under another aggregate
# than their own, or (None) not at all.
ON_POLICY: dict[str, Aggregate | None] = {
    # A mean over prompts is no function of the action mask alone: tests/algorithms/test_prompt_mean.py.
    "scalerl": None,
    # One square a rollout, whose gradient every token has in full.
    "tba": constant(1),
}

# Twenty actions at least, with observations between them.
LONG = {"tokens": 36, "sure": tuple(t for t in range(30) if t % 3 != 1)}
DRAWN: dict[str, dict[str, Any]] = {"vapo": LONG}


def _catalogue() -> dict[str, Composition]:
    made = {name: make() for name, make in by_name().items()}
    return {
        name.replace("_", " "): Composition(
            estimator=estimator,
            reinforce=ON_POLICY.get(name, estimator.aggregate),
            **DRAWN.get(name, {}),
        )
        for name, estimator in made.items()
    }


COMPOSITIONS: dict[str, Composition] = {
    **_catalogue(),
    "grpo token mean": _own(grpo(aggregate=token_mean)),
    "dual clip": _own(dataclasses.replace(grpo_behaviour_clip(), trust=dual_clip(0.2, 0.28, cap=3.0))),
    "importance weighted": _own(_of(group_centred, per_token, importance_weighted, token_mean)),
    # The product's gradient is the same at every token of a row: its mean over them is the row's sum.
    "sequence product": Composition(
        estimator=_of(group_centred, per_sequence_product, importance_weighted, sequence_mean),
        reinforce=constant(1),
    ),
    "value baseline": _own(_of(reward_minus_value, per_token, importance_weighted, sequence_mean)),
    "plain gae": _own(
        _of(partial(skip_observation_gae, lam=0.95), per_token, ppo_clip(0.2, 0.2), token_mean)
    ),
    "token tis mean one": _own(token_tis(normalise=over_tokens)),
    "sequence tis mean one": _own(sequence_tis(normalise=over_rollouts)),
    "m2po least clip": _own(m2po(least_low=0.3, least_high=0.5)),
    "m2po areal tight": _own(m2po_areal(budget=1e-6)),
    "bapo script": _own(bapo(low=(0.8, 0.95), target=0.5, log_ratio=per_token)),
    "sao coding": _own(sao(eps_low=0.8, eps_high=3.0)),
    "icepop kept tokens": _own(icepop(aggregate=token_mean, kept_only=True)),
    "decoupled capped": _own(decoupled_ppo(correction=token_truncated(5.0))),
    "decoupled vetoed": _own(decoupled_ppo(correction=both(token_ratio, veto(1e-4)))),
    "sao whitened": _own(sao(normalise=whitened)),
    "sao no bootstrap": _own(sao(bootstrap_truncated=False, gamma=0.9)),
    "sao mean per rollout": _own(sao(aggregate=sequence_mean)),
    "sao kept tokens": _own(sao(counted=inside)),
    "sao full critic": _own(sao(critic=CriticRecipe(updates_per_policy_update=1, value_when="after"))),
    # Gradient r A (1 + log pi): not REINFORCE even on-policy, which is why it is an ablation.
    "sao undetached": Composition(estimator=sao(trust=double_sided_mask_undetached), reinforce=None),
}


def random_batch(
    seed: int = 0, *, dtype: torch.dtype = torch.float64, tokens: int = 6, sure: tuple[int, ...] = (0,)
) -> Batch:
    """Seven rollouts of up to six tokens: observations, ragged ends, truncation, a group of one."""
    g = torch.Generator().manual_seed(seed)
    b, t = 7, tokens
    lengths = torch.randint(max(sure) + 1, t + 1, (b,), generator=g)
    lengths[0] = t
    mask = (torch.arange(t) < lengths[:, None]) & (torch.rand(b, t, generator=g) < 0.7)
    mask[:, sure] = True

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    behaviour = -numbers(b, t).abs() - 0.1
    # Rollouts of both groups on which trainer and engine agree, for what drops every other one.
    mismatch = torch.tensor([1e-4, 1e-4, 0.1, 0.1, 1e-4, 0.1, 0.1], dtype=dtype)[:, None]
    return Batch(
        token_ids=torch.randint(0, 9, (b, t), generator=g),
        action_mask=mask,
        behaviour_log_probs=behaviour,
        old_log_probs=behaviour + mismatch * numbers(b, t),
        policy_versions=torch.randint(0, 4, (b, t), generator=g),
        rewards=numbers(b, t),
        prompt_ids=torch.tensor([0, 0, 0, 1, 1, 1, 2]),
        group_ids=torch.tensor([4, 4, 4, 9, 9, 9, 1]),
        truncated=torch.tensor([False, True, False, False, True, False, True]),
        temperature=torch.ones(b, dtype=dtype),
        values=numbers(b, t),
        bootstrap_values=numbers(b),
        baselines=numbers(b),
        reference_log_probs=behaviour - 0.1 * numbers(b, t).abs(),
    )


def policy_near(batch: Batch, distance: float, seed: int = 1) -> Tensor:
    """Log-probs of a policy that moved about `distance` nats a token."""
    g = torch.Generator().manual_seed(seed)
    step = torch.randn(batch.action_mask.shape, generator=g, dtype=torch.float64)
    return batch.behaviour_log_probs + distance * step.to(batch.behaviour_log_probs.dtype)


def loss_and_gradient(estimator: Estimator, log_probs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The four lines, on the whole batch."""
    leaf = log_probs.detach().clone().requires_grad_()
    advantages = estimator.advantage(batch)
    estimator = estimator.fixed(leaf, batch, advantages)
    total = estimator.total(batch, leaf)
    loss = estimator.loss(leaf, batch, advantages=advantages, total=total)
    loss.backward()
    assert leaf.grad is not None
    return loss.detach(), leaf.grad


def poisoned(batch: Batch) -> Batch:
    """NaN and nonsense wherever nothing should look."""

    def spoil(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.where(batch.action_mask, math.nan)

    assert batch.bootstrap_values is not None
    return dataclasses.replace(
        batch,
        token_ids=batch.token_ids.where(batch.action_mask, -100),
        policy_versions=batch.policy_versions.where(batch.action_mask, -1),
        behaviour_log_probs=spoil(batch.behaviour_log_probs),
        old_log_probs=spoil(batch.old_log_probs),
        rewards=spoil(batch.rewards),
        values=spoil(batch.values),
        bootstrap_values=batch.bootstrap_values.where(batch.truncated, math.nan),
    )


def padded(batch: Batch, tokens: int) -> Batch:
    """The same rollouts, padded further, with nonsense in the padding."""

    def extend(tensor: Tensor) -> Tensor:
        if tensor.dim() == 1:
            return tensor
        fill = False if tensor.dtype == torch.bool else math.nan if tensor.is_floating_point() else -1
        return torch.nn.functional.pad(tensor, (0, tokens), value=fill)

    fields = {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}
    return Batch(**{name: None if t is None else extend(t) for name, t in fields.items()})
