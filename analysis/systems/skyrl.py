"""SkyRL, fully asynchronous.

Names: `skyrl/train/fully_async_trainer.py` and `trainer.py`, https://github.com/NovaSky-AI/SkyRL; exported
columns as in https://huggingface.co/laion/a2_rl_crosscodeeval_python_v2.
"""

from __future__ import annotations

from typing import Final

from analysis.systems.system import Changes, System

SKYRL: Final = System(
    name="SkyRL",
    lag=(
        "SkyRL: global_step (the step being worked on) - the step at which a group began; a step is one "
        "trained "
        "batch, which may hold several optimizer updates"
    ),
    metrics={
        "async/staleness_mean": "lag_mean",
        "async/staleness_max": "lag_max",
        "async/staleness_violation_count": "violations",
        "async/discard_rate": "dropped_share",
        "async/discarded_count": "dropped_stale",
        "policy/rollout_train_logprobs_abs_diff_mean": "logprob_gap_mean",
        "policy/ppo_clip_ratio": "clip_fraction",
        "policy/policy_entropy": "entropy",
        "policy/raw_grad_norm": "grad_norm",
        "policy/final_loss": "loss",
        "policy/policy_loss": "loss",
        "reward/avg_raw_reward": "reward_mean",
        "reward/zero_std_group_fraction": "zero_variance_share",
        "generate/avg_num_tokens": "response_length_mean",
        "timing/step": "step_s",
        "timing/wait_for_generation_buffer": "trainer_wait_s",
    },
    changes=Changes(
        lag=(
            "lower trainer.fully_async.max_staleness_steps, or "
            "trainer.fully_async.num_parallel_generation_workers"
        ),
        drift=(
            "switch on trainer.algorithm.off_policy_correction, or lower "
            "trainer.fully_async.max_staleness_steps or the "
            "learning rate"
        ),
        mismatch=(
            "run engine and trainer in the same precision; correct the rest with "
            "trainer.algorithm.off_policy_correction"
        ),
        clipping=(
            "lower trainer.fully_async.max_staleness_steps or the learning rate before widening the clip "
            "range"
        ),
        starving=(
            "add engines (generator.inference_engine.num_engines), or raise "
            "trainer.fully_async.num_parallel_generation_workers"
        ),
        waiting="give the policy more machines (trainer.placement.policy_num_gpus_per_node)",
        length_bias=(
            "raise trainer.fully_async.max_staleness_steps, so that long groups are trained and not dropped"
        ),
        truncation="raise the sampling's max_generate_length",
        no_signal=(
            "set trainer.algorithm.zero_variance_filter with trainer.fully_async.sample_full_batch, or "
            "change the prompts"
        ),
        temperature="make the sampling temperature the trainer's, without top-p and top-k",
        collapse="go back to an earlier checkpoint with a lower learning rate",
        resume="audit the parts before and after a resume apart",
    ),
)
