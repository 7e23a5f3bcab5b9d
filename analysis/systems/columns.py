"""Under which names do all logs meet, read or written, and in which units? One row an update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COLUMNS: Final[Mapping[str, str]] = {
    "update": "number of the optimizer update, or of what the system steps by",
    "version": "version of the weights after it",
    "lag_mean": "mean lag of what was trained, in the system's versions",
    "lag_max": "largest lag of what was trained, in the system's versions",
    "lag_newest_mean": "mean lag of the newest token of each rollout, in the system's versions",
    "violations": "trained rollouts or groups beyond the configured bound",
    "kl_k1": "mean of log mu - log pi over tokens: behaviour against the trainer, in nats",
    "kl_k3": "mean of r - 1 - log r over tokens, r = pi / mu, in nats",
    "kl_update": "the same k1 estimate against the weights that the batch began with, in nats",
    "kl_engine": "the same k1 estimate at the same version: engine against trainer, in nats",
    "logprob_gap_mean": "mean of |log pi - log mu| over tokens, in nats",
    "prob_correlation": "correlation of the token probabilities of engine and trainer",
    "ratio_mean": "mean of r = pi / mu over tokens; 1 if mu is what was sampled from",
    "ess": "effective sample size as a share of the samples",
    "clip_fraction": "share of tokens whose ratio was clipped",
    "clip_low": "share of tokens clipped below",
    "clip_high": "share of tokens clipped above",
    "clip_positive": "share of tokens clipped with a positive advantage",
    "clip_negative": "share of tokens clipped with a negative advantage",
    "clip_dual": "share of tokens with a negative advantage whose loss the dual clip bounds",
    "masked_fraction": "share of tokens (or sequences) that a mask took out of the loss",
    "masked_low": "share of tokens masked for a ratio that fell",
    "masked_high": "share of tokens masked for a ratio that rose",
    "masked_positive": "share of tokens masked with a positive advantage",
    "masked_negative": "share of tokens masked with a negative advantage",
    "entropy": "mean entropy of the policy over tokens, in nats",
    "reward_mean": "mean reward of a rollout",
    "reward_std": "standard deviation of the reward within an update (or its groups)",
    "reward_min": "smallest reward",
    "reward_max": "largest reward",
    "zero_variance_share": "share of groups whose rewards are all equal",
    "response_length_mean": "mean length of the trained responses, in tokens",
    "response_length_generated_mean": "mean length of all responses that were generated, in tokens",
    "truncated_share": "share of responses cut at the length limit",
    "dropped_stale": "rollouts or groups dropped for their age",
    "dropped_share": "share of what was generated that was dropped",
    "aborted_share": "share of responses without a token",
    "repeated_share": "share of rollouts that are an exact copy of another of the same update",
    "grad_norm": "norm of the gradient before it is clipped",
    "loss": "loss of the policy",
    "refused": "updates that were skipped",
    "trainer_idle_share": "share of a step in which the trainer waited for data",
    "engine_idle_share": "share of a step in which the engines waited",
    "rollouts": "rollouts in the record of this update",
}
"""What a check may ask for."""

PARTS: Final[Mapping[str, str]] = {
    "step_s": "seconds of a step",
    "trainer_wait_s": "seconds that the trainer waited for data",
    "engine_wait_s": "seconds that generation waited for weights",
    "signal_share": "share of groups whose rewards differ",
    "all_failed_share": "share of groups in which every rollout failed",
    "all_solved_share": "share of groups in which every rollout succeeded",
    "masked_that_are_positive": "share of the masked tokens whose advantage is positive",
    "masked_that_are_negative": "share of the masked tokens whose advantage is negative",
    "update_successful": "1 if the update was made",
    "generated_total": "rollouts generated so far",
    "dropped_stale_total": "rollouts dropped for their age so far",
    "kl_reference": "divergence from a fixed reference, which says nothing of the data's age",
}
"""What a log may hold in place of a column; `derive` makes columns of them."""

KNOWN: Final = frozenset(COLUMNS) | frozenset(PARTS)

PREFIX: Final = "policylag/"
"""Before one of our names in a log that is written in the words of a system that has none for it."""
