"""prime-rl: trainer and orchestrator log apart.

Names: `src/prime_rl/orchestrator/metrics.py` and `src/prime_rl/trainer/rl/loss.py` over several versions,
https://github.com/PrimeIntellect-ai/prime-rl.
"""

from __future__ import annotations

from typing import Final

from analysis.systems.system import Changes, System

PRIME_RL: Final = System(
    name="prime-rl",
    lag=(
        "prime-rl: (step - 1) - the version that a rollout began with, of what was trained; a version is one "
        "optimizer update (off_policy_level of older versions counts what is in flight)"
    ),
    metrics={
        "off_policy/mean": "lag_mean",
        "off_policy/max": "lag_max",
        "off_policy_level/all/mean": "lag_mean",
        "off_policy_level/all/max": "lag_max",
        "batch/off_policy_level/mean": "lag_mean",
        "batch/off_policy_level/max": "lag_max",
        "off_policy/dropped": "dropped_stale",
        "scheduler/cancelled_rollouts": "dropped_stale",
        "batch/cancelled_rollouts": "dropped_stale",
        "mismatch_kl/all/mean": "kl_k3",
        "mismatch_kl/mean": "kl_k3",
        "is_masked/mean": "masked_fraction",
        "is_masked_low/mean": "masked_low",
        "is_masked_high/mean": "masked_high",
        "masked_advantage_positive/mean": "masked_that_are_positive",
        "masked_advantage_negative/mean": "masked_that_are_negative",
        "entropy/all/mean": "entropy",
        "entropy/mean": "entropy",
        "optim/grad_norm": "grad_norm",
        "loss/mean": "loss",
        "train/agg/effective/reward/mean": "reward_mean",
        "reward/all/mean": "reward_mean",
        "reward/all/max": "reward_max",
        "reward/all/min": "reward_min",
        "reward/mean": "reward_mean",
        "effective_batch_size/all": "signal_share",
        "batch/effective_batch_size": "signal_share",
        "solve_none/all": "all_failed_share",
        "solve_all/all": "all_solved_share",
        "train/agg/effective/num_output_tokens/mean": "response_length_mean",
        "train/agg/all/num_output_tokens/mean": "response_length_generated_mean",
        "decode_len/all/mean": "response_length_mean",
        "completion_len/mean": "response_length_mean",
        "train/agg/all/is_truncated/mean": "truncated_share",
        "is_truncated/all/mean": "truncated_share",
        "time/step": "step_s",
        "time/wait_for_batch": "trainer_wait_s",
        "time/wait_for_policy": "engine_wait_s",
    },
    changes=Changes(
        lag="lower max_off_policy_steps of the orchestrator, or the number of rollouts in flight",
        drift="lower max_off_policy_steps or the learning rate, or raise the batch size",
        mismatch="compare engine and trainer at the same step; run both in the same precision",
        clipping=(
            "lower max_off_policy_steps or the learning rate before widening dppo_mask_low and dppo_mask_high"
        ),
        starving="add inference nodes: the trainer waits for a batch (time/wait_for_batch)",
        waiting="add trainer nodes: the orchestrator waits for weights (time/wait_for_policy)",
        length_bias="raise max_off_policy_steps, so that long rollouts are trained and not dropped",
        truncation="raise the sampling's max_tokens",
        no_signal="change the prompts' difficulty, or raise group_size",
        temperature="make the sampling temperature the trainer's, without top-p and top-k",
        collapse="go back to an earlier checkpoint with a lower learning rate",
        resume="audit the parts before and after a resume apart",
    ),
)
