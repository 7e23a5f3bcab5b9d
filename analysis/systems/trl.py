"""TRL's GRPO trainer, and its asynchronous one, whose `kl` is another quantity.

Names: `trl/trainer/grpo_trainer.py` and `async_grpo_trainer.py`, https://github.com/huggingface/trl. In the
first, `kl` is the divergence from the reference model; in the second, the k3 estimate against the behaviour
policy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from analysis.systems.system import Changes, System

TRL: Final = System(
    name="TRL",
    lag=(
        "TRL: model_version - the version that a sample was begun with; a version is a weight sync of "
        "weight_sync_steps optimizer updates (the synchronous trainer has no lag but reuse of a batch)"
    ),
    metrics={
        "kl": "kl_reference",
        "sampling/sampling_logp_difference/mean": "logprob_gap_mean",
        "clip_ratio/region_mean": "clip_fraction",
        "clip_ratio/low_mean": "clip_low",
        "clip_ratio/high_mean": "clip_high",
        "entropy": "entropy",
        "reward": "reward_mean",
        "reward_std": "reward_std",
        "frac_reward_zero_std": "zero_variance_share",
        "completions/mean_length": "response_length_mean",
        "completions/clipped_ratio": "truncated_share",
        "grad_norm": "grad_norm",
        "loss": "loss",
        "step_time": "step_s",
    },
    prefixes=("train/",),
    changes=Changes(
        lag="lower max_staleness, weight_sync_steps or max_inflight_tasks",
        drift="set vllm_importance_sampling_correction=True, or lower max_staleness or learning_rate",
        mismatch="set vllm_importance_sampling_correction=True, and run vLLM in the trainer's precision",
        clipping=(
            "lower max_staleness, num_iterations or learning_rate before widening epsilon and epsilon_high"
        ),
        starving="give the vLLM server more devices, or raise max_inflight_tasks",
        waiting="raise max_staleness, or give the trainer more devices",
        length_bias="raise max_staleness, so that long completions are trained and not dropped",
        truncation=(
            "raise max_completion_length; mask_truncated_completions=True keeps cut ones out of the loss"
        ),
        no_signal="raise num_generations, or change the prompts' difficulty",
        temperature=(
            "set temperature for both sides (it divides the trainer's logits too), with top_p=1 and no top_k"
        ),
        collapse="go back to an earlier checkpoint with a lower learning_rate or a smaller max_grad_norm",
        resume="audit the parts before and after a resume apart",
    ),
)

TRL_ASYNC: Final = replace(
    TRL,
    name="TRL (asynchronous)",
    metrics={**TRL.metrics, "kl": "kl_k3", "ratio": "ratio_mean", "clip_ratio": "clip_fraction"},
)
