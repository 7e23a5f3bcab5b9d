"""AReaL: statistics of the actor, and traces of sessions.

Names: `areal/engine` losses and `areal/utils/perf_tracer.py`, https://github.com/inclusionAI/AReaL. Its
approx_kl are means of log pi - log mu: the k1 estimate with the other sign.
"""

from __future__ import annotations

from typing import Final

from analysis.systems.system import Changes, System

_SCOPES: Final = ("ppo_actor", "grpo_actor")
"""The second is of older versions."""
_NEGATED: Final = ("approx_kl", "behave_approx_kl")
_OF_THE_ACTOR: Final = {
    "update/version_stats/sample_staleness_theta_avg": "lag_mean",
    "update/approx_kl/avg": "kl_update",
    "update/behave_approx_kl/avg": "kl_k1",
    "behave_cap_ratio": "masked_fraction",
    "update/clip_ratio/avg": "clip_fraction",
    "update/entropy/avg": "entropy",
    "update/grad_norm": "grad_norm",
    "update/actor_loss/avg": "loss",
    "update/update_successful": "update_successful",
    "task_reward/avg": "reward_mean",
    "task_reward/min": "reward_min",
    "task_reward/max": "reward_max",
}

AREAL: Final = System(
    name="AReaL",
    lag=(
        "AReaL: version of the trainer - version of each token (sample_staleness); a version is one "
        "trained batch of "
        "several minibatch updates, and max_head_offpolicyness bounds how far sampling runs ahead, not a "
        "rollout's lag"
    ),
    metrics={
        **{f"{scope}/{theirs}": ours for scope in _SCOPES for theirs, ours in _OF_THE_ACTOR.items()},
        "rollout/reward": "reward_mean",
    },
    negated=frozenset(f"{scope}/update/{name}/avg" for scope in _SCOPES for name in _NEGATED),
    changes=Changes(
        lag="lower rollout.max_head_offpolicyness or rollout.max_concurrent_rollouts",
        drift=(
            "train with the decoupled loss and a cap (actor.behav_imp_weight_cap), or lower "
            "rollout.max_head_offpolicyness"
        ),
        mismatch=(
            "recompute the log-probs at the behaviour version (actor.recompute_logprob), and match the "
            "precision"
        ),
        clipping="lower rollout.max_head_offpolicyness or the learning rate before widening actor.eps_clip",
        starving="give rollout more devices, or raise rollout.max_concurrent_rollouts",
        waiting="raise rollout.max_head_offpolicyness, or give the trainer more devices",
        length_bias="loosen what rejects a session: its reasons are in the trace",
        truncation="raise gconfig.max_new_tokens",
        no_signal="raise gconfig.n_samples, or change the prompts' difficulty",
        temperature="make gconfig.temperature what the actor divides its logits by",
        collapse="go back to an earlier checkpoint with a lower actor.optimizer.lr",
        resume="audit the parts before and after a resume apart",
    ),
)
