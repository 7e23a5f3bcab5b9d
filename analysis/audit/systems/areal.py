"""AReaL: statistics of the actor, and traces of sessions.

Names: `areal/engine` losses and `areal/utils/perf_tracer.py`, https://github.com/inclusionAI/AReaL. Its
approx_kl are means of log pi - log mu: the k1 estimate with the other sign.
"""

from __future__ import annotations

from typing import Final

from analysis.audit.systems.system import Changes, System

AREAL: Final = System(
    name="AReaL",
    lag=(
        "AReaL: version of the trainer - version of each token (sample_staleness); a version is one "
        "trained batch of "
        "several minibatch updates, and max_head_offpolicyness bounds how far sampling runs ahead, not a "
        "rollout's lag"
    ),
    metrics={
        "ppo_actor/update/version_stats/sample_staleness_theta_avg": "lag_mean",
        "ppo_actor/update/approx_kl/avg": "kl_update",
        "ppo_actor/update/behave_approx_kl/avg": "kl_k1",
        "ppo_actor/behave_cap_ratio": "masked_fraction",
        "ppo_actor/update/clip_ratio/avg": "clip_fraction",
        "ppo_actor/update/entropy/avg": "entropy",
        "ppo_actor/update/grad_norm": "grad_norm",
        "ppo_actor/update/actor_loss/avg": "loss",
        "ppo_actor/update/update_successful": "update_successful",
        "ppo_actor/task_reward/avg": "reward_mean",
    },
    negated=frozenset({"ppo_actor/update/approx_kl/avg", "ppo_actor/update/behave_approx_kl/avg"}),
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
