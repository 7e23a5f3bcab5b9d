"""A log of a system that is not known, in names that many share, and our own run folders."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from analysis.systems.system import Changes, System

PLAIN: Final = System(
    name="unknown",
    lag="unknown system: lag is taken as logged; say what a version is before comparing it with others",
    metrics={
        "lag": "lag_mean",
        "staleness": "lag_mean",
        "staleness_mean": "lag_mean",
        "staleness_max": "lag_max",
        "max_staleness": "lag_max",
        "max_lag": "lag_max",
        "gradient_norm": "grad_norm",
        "clipfrac": "clip_fraction",
        "clipped_fraction": "clip_fraction",
        "reward": "reward_mean",
        "rewards": "reward_mean",
        "response_length": "response_length_mean",
    },
    changes=Changes(
        lag="let fewer rollouts run ahead, or push weights more often",
        drift="correct with the ratio, or lower the lag or the learning rate",
        mismatch=(
            "recompute the behaviour log-probs in the trainer, and match the precision of engine and trainer"
        ),
        clipping="lower the lag or the learning rate before widening the bounds",
        starving="give generation more machines, or let more rollouts run ahead",
        waiting="give the trainer more machines",
        length_bias="drop by queue length instead of age, or raise the age bound",
        truncation="raise the length limit",
        no_signal="use larger groups, or prompts of another difficulty",
        temperature=(
            "use one temperature for sampling and for the trainer's log-probs, without top-p and top-k"
        ),
        collapse="go back to an earlier checkpoint with a lower learning rate",
        resume="audit the parts before and after a resume apart",
    ),
)

POLICYLAG: Final = replace(
    PLAIN,
    name="PolicyLag",
    lag=(
        "PolicyLag: version of the trainer when training starts - version of the token, in optimizer "
        "updates; the mean "
        "is over tokens, the maximum over each rollout's oldest token"
    ),
    metrics={
        "token_lag": "lag_mean",
        "k1": "kl_k1",
        "k3": "kl_k3",
        "ess_token": "ess",
        "clipped_fraction": "clip_fraction",
        "clipped_positive_fraction": "clip_positive",
        "clipped_negative_fraction": "clip_negative",
        "masked_fraction": "masked_fraction",
        "masked_positive_fraction": "masked_positive",
        "masked_negative_fraction": "masked_negative",
        "entropy": "entropy",
        "reward": "reward_mean",
        "gradient_norm": "grad_norm",
        "loss": "loss",
        "refused": "refused",
    },
)
