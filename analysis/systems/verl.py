"""verl: synchronous, one step off, fully asynchronous, and the V1 trainers.

Names: `verl/trainer/ppo/metric_utils.py`, `rollout_corr_helper.py`, the fully asynchronous recipe and the V1
trainers' documentation, https://github.com/volcengine/verl.
"""

from __future__ import annotations

from typing import Final

from analysis.systems.system import Changes, System

_CORRECTION: Final = {
    "kl": "kl_k1",
    "k3_kl": "kl_k3",
    "rollout_is_eff_sample_size": "ess",
    "rollout_rs_masked_fraction": "masked_fraction",
}

VERL: Final = System(
    name="verl",
    lag=(
        "verl: trainer step - 1 - oldest version of the rollout (trajectory_staleness_worst); a version is a "
        "weight sync, which may hold several optimizer updates"
    ),
    metrics={
        "training/off_policy/trajectory_staleness_worst/mean": "lag_mean",
        "training/off_policy/trajectory_staleness_worst/max": "lag_max",
        "training/off_policy/trajectory_staleness/mean": "lag_newest_mean",
        "training/off_policy/dropped_samples": "dropped_stale",
        "fully_async/count/current_param_version": "version",
        "fully_async/count/dropped_stale_samples": "dropped_stale_total",
        "fully_async/count/total_generated_samples": "generated_total",
        "fully_async/rollouter/idle_ratio": "engine_idle_share",
        "fully_async/trainer/idle_ratio": "trainer_idle_share",
        **{f"rollout_corr/{theirs}": ours for theirs, ours in _CORRECTION.items()},
        **{f"actor/rollout_corr/{theirs}": ours for theirs, ours in _CORRECTION.items()},
        "training/rollout_actor_probs_pearson_corr": "prob_correlation",
        "actor/ppo_kl": "kl_update",
        "actor/pg_clipfrac": "clip_fraction",
        "actor/pg_clipfrac_lower": "clip_dual",
        "actor/entropy": "entropy",
        "actor/grad_norm": "grad_norm",
        "actor/pg_loss": "loss",
        "critic/score/mean": "reward_mean",
        "critic/score/max": "reward_max",
        "critic/score/min": "reward_min",
        "response_length/mean": "response_length_mean",
        "response_length/clip_ratio": "truncated_share",
        "response/aborted_ratio": "aborted_share",
        "timing_s/step": "step_s",
    },
    changes=Changes(
        lag=(
            "lower async_training.staleness_threshold or async_training.trigger_parameter_sync_step; in "
            "the V1 "
            "trainers lower trainer.v1.sampler.max_off_policy_threshold"
        ),
        drift=(
            "correct with algorithm.rollout_correction.rollout_is, or lower "
            "async_training.trigger_parameter_sync_step or actor_rollout_ref.actor.optim.lr"
        ),
        mismatch=(
            "set actor_rollout_ref.rollout.calculate_log_probs=True with algorithm.rollout_correction, and "
            "compare the "
            "precision of engine and trainer"
        ),
        clipping=(
            "lower async_training.staleness_threshold or actor_rollout_ref.actor.optim.lr before widening "
            "actor_rollout_ref.actor.clip_ratio_low and clip_ratio_high"
        ),
        starving="give rollout more machines (rollout.nnodes), or raise async_training.staleness_threshold",
        waiting=(
            "give the trainer more machines (trainer.nnodes), or raise async_training.staleness_threshold; "
            "note that "
            "idle_ratio of some versions sees only the last pause of a step"
        ),
        length_bias=(
            "raise trainer.v1.sampler.max_off_policy_threshold, or set max_off_policy_strategy=wait, which "
            "drops nothing"
        ),
        truncation="raise data.max_response_length",
        no_signal=(
            "set algorithm.filter_groups.enable=True, raise actor_rollout_ref.rollout.n, or change the "
            "prompts"
        ),
        temperature=(
            "make actor_rollout_ref.rollout.temperature what the trainer divides its logits by, with "
            "top_p=1 and top_k=-1"
        ),
        collapse="go back to an earlier checkpoint with a lower actor_rollout_ref.actor.optim.lr",
        resume="keep one VERL_FILE_LOGGER_PATH a run, and audit the parts before and after a resume apart",
    ),
)
