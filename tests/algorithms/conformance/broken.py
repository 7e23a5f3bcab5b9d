"""Estimators with one fault each, as found in the wild, and the law that must catch it."""

from __future__ import annotations

import dataclasses

import torch

from algorithms.aggregate import Aggregate, count_tokens
from algorithms.conformance import laws
from algorithms.grpo import grpo_behaviour_clip
from algorithms.sao import sao
from algorithms.trust import double_sided_mask_undetached, score

SOUND = dataclasses.replace(grpo_behaviour_clip(), trust=score)


def along_tokens(per_rollout, batch):
    return per_rollout[:, None].expand_as(batch.action_mask).where(batch.action_mask, 0.0)


def multiplied_by_the_mask(batch):
    """0 x NaN is NaN."""
    return along_tokens((batch.rewards * batch.action_mask).sum(-1), batch)


def rewards_of_padding(batch):
    """NaN is left out, any other number is summed."""
    return along_tokens(batch.rewards.nansum(-1), batch)


def naive_rewards(batch):
    return along_tokens(batch.rewards.sum(-1), batch)


def pairs_by_position(batch):
    """`rewards.view(-1, 2)`, as if groups of two lay side by side."""
    pair = torch.arange(len(batch.rewards)) // 2
    rewards = batch.returns
    means = torch.stack([rewards[pair == p].mean() for p in pair])
    return along_tokens(rewards - means, batch)


def unclamped(log_ratio, advantages, log_probs):  # noqa: ARG001
    return log_ratio.exp() * advantages


def mean_of_the_shard(terms, mask, total):  # noqa: ARG001
    return terms.where(mask, 0.0).sum() / mask.sum().clamp(min=1)


def undefined_without_tokens(terms, mask, total):
    return terms.where(mask, 0.0).sum() / total


def gradient_of_observations(log_probs, old_log_probs, advantages, mask, total):
    """The value is right; observations of rollouts that act have a gradient."""
    ratio = (log_probs - old_log_probs).where(mask, 0.0).clamp(-20, 20).exp()
    off = log_probs.nan_to_num().where(~mask & mask.any(-1, keepdim=True), 0.0)
    terms = (ratio * advantages).where(mask, 0.0) + off - off.detach()
    return -terms.sum() / total.clamp(min=1)


def sound_loss(log_probs, old_log_probs, advantages, mask, total):
    ratio = (log_probs - old_log_probs).where(mask, 0.0).clamp(-20, 20).exp()
    return -(ratio * advantages.where(mask, 0.0)).where(mask, 0.0).sum() / total.clamp(min=1)


def masked_mean_loss(log_probs, old_log_probs, advantages, mask):
    """Sound but for its own denominator, without which a micro-batch cannot add up."""
    return sound_loss(log_probs, old_log_probs, advantages, mask, mask.sum())


def _with_reduce(reduce):
    return dataclasses.replace(SOUND, aggregate=Aggregate(count=count_tokens, reduce=reduce))


BROKEN = {
    "mask by multiplication": (
        dataclasses.replace(SOUND, advantage=multiplied_by_the_mask),
        laws.nan_is_inert,
    ),
    "observations have a gradient": (gradient_of_observations, laws.masked_tokens_have_no_gradient),
    "rewards of padding": (dataclasses.replace(SOUND, advantage=rewards_of_padding), laws.padding_is_inert),
    "zero over zero": (_with_reduce(undefined_without_tokens), laws.all_masked_is_zero),
    "groups by position": (
        dataclasses.replace(SOUND, advantage=pairs_by_position),
        laws.row_order_is_irrelevant,
    ),
    "mean of the shard": (_with_reduce(mean_of_the_shard), laws.shards_add_up),
    "mean in a loss function": (masked_mean_loss, laws.shards_add_up),
    "weight not detached": (sao(trust=double_sided_mask_undetached), laws.on_policy_is_reinforce),
    "exp without a clamp": (dataclasses.replace(SOUND, trust=unclamped), laws.extreme_ratios_stay_finite),
}
