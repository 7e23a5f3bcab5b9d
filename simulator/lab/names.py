"""Estimators by the names that a configuration may use; `simulator.lab.methods` makes them.

Names alone: no torch, so that a command line can read them in no time. A test compares them with what is
made.
"""

from __future__ import annotations

from typing import Final, Literal

EstimatorName = Literal[
    "grpo",
    "grpo_behaviour_clip",
    "grpo_dis",
    "sao",
    "sao_running_mean",
    "sao_step_mean",
    "sao_step_last",
    "sao_dis_only",
    "token_tis",
    "sequence_tis",
    "sequence_mis",
    "geometric_rs",
    "k3_rs",
    "veto_rs",
    "mis_po",
    "icepop",
    "kpop",
    "decoupled_ppo",
    "dr_grpo",
    "dapo",
    "rloo",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "gspo",
    "gspo_token",
    "gmpo",
    "cispo",
    "scalerl",
    "pipelinerl",
    "aipo",
    "torchforge_reinforce",
    "topr",
    "vespo",
    "dppo_tv",
    "dppo_kl",
    "sapo",
    "grpo_delta",
    "opsm",
    "kimi",
    "m2po",
    "m2po_areal",
    "bapo",
    "vcpo",
    "vtrace",
    "vc_ppo",
    "vapo",
    "spo",
    "tba",
    "grpo_gac",
    "grpo_reset",
    "sao_running_mean_128",
    "sao_full_critic",
    "sao_values_after",
    "sao_whitened",
    "sao_undetached",
    "sao_no_warm_up",
    "sao_rate_warm_up",
    "sao_alpha_0.5",
    "sao_alpha_5",
    "sao_through_observations",
    "vapo_alpha_1.5",
    "gspo_behaviour",
    "cispo_behaviour",
    "m2po_behaviour",
    "vcpo_mean_baseline",
]

CRITICS: Final = frozenset(
    {
        "mis_po",
        "sao",
        "sao_alpha_0.5",
        "sao_alpha_5",
        "sao_dis_only",
        "sao_full_critic",
        "sao_no_warm_up",
        "sao_rate_warm_up",
        "sao_step_last",
        "sao_step_mean",
        "sao_through_observations",
        "sao_undetached",
        "sao_values_after",
        "sao_whitened",
        "vapo",
        "vapo_alpha_1.5",
        "vc_ppo",
        "vtrace",
    }
)
"""Those that train a value model."""

SINGLE: Final = CRITICS | {
    "sao_running_mean",
    "reinforce_pp",
    "spo",
    "sao_running_mean_128",
}
"""Those that can learn from one rollout a prompt."""
